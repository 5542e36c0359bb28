/* Tubes: which rows changed, as keys, in order.  Entries are numbered after commit by core/sequence. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('tube.entry_keys', '250', '250', 'int', '1', 'keys that one entry of a tube holds at most'),
  ('tube.attach_patience', '30 seconds', '30 seconds', 'interval', '0', 'how long attaching or detaching a table tries to get its lock'),
  ('tube.attach_lock_timeout', '200 milliseconds', '200 milliseconds', 'interval', '1 millisecond',
   'how long one of these tries may make writers of the table wait');

create table trunkline.tube (
  tube_id int generated always as identity constraint tube_pkey primary key,
  tube text not null constraint tube_name unique,
  lanes int not null check (lanes between 1 and 1024),
  condition text,
  created_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.tube is 'Tubes: one for each downstream.';

create table trunkline.tube_table (
  attachment int generated always as identity constraint tube_table_pkey primary key,
  tube_id int not null references trunkline.tube on delete cascade,
  relation regclass not null,
  relation_name text not null,
  key_columns text[] not null,
  key_types text[] not null,
  shard int,
  shard_expression text,
  condition text,
  on_error text not null check (on_error in ('fail', 'gap')),
  attached_at timestamptz not null default clock_timestamp(),
  detached_at timestamptz
);
create unique index tube_table_attached on trunkline.tube_table (tube_id, relation) where detached_at is null;
comment on table trunkline.tube_table is 'Tables attached to tubes. A detached one stays until its entries are delivered.';

create table trunkline.tube_hook (
  attachment int not null references trunkline.tube_table on delete cascade,
  relation regclass not null,
  constraint tube_hook_pkey primary key (attachment, relation)
);
comment on table trunkline.tube_hook is 'Tables that carry triggers of an attachment: the attached one and its partitions.';

create table trunkline.tube_gap (
  attachment int not null references trunkline.tube_table on delete cascade,
  error text not null,
  at timestamptz not null default clock_timestamp(),
  backfill bigint
);
comment on table trunkline.tube_gap is 'Writes that were let through although they could not be captured: the table needs a backfill.';
comment on column trunkline.tube_gap.backfill is 'The backfill that will close the gap; it leaves when that is done.';

/* tube_entry is the source of the sequence of the same name. */
create sequence trunkline.tube_seq;
create table trunkline.tube_entry (
  slot int not null,
  xid_space int not null,
  xid xid8 not null,
  seq bigint not null,
  tube_id int not null,
  attachment int,
  shard int not null check (shard >= 0),
  priority smallint not null,
  op "char" not null check (op in ('I', 'U', 'D', 'T', 'B')),
  keys text[] not null,
  payload jsonb,
  control text check (control in ('backfill_start', 'backfill_end', 'truncate')),
  at timestamptz not null,
  constraint tube_entry_pkey primary key (xid, seq, slot)
) partition by list (slot);
comment on table trunkline.tube_entry is 'What was touched: up to tube.entry_keys keys of one table and shard, or a control entry.';

create table trunkline.tube_parked (
  tube_id int not null references trunkline.tube on delete cascade,
  attachment int not null,
  shard int not null,
  key text not null,
  attempts int not null,
  error text not null,
  parked_at timestamptz not null default clock_timestamp(),
  constraint tube_parked_pkey primary key (tube_id, attachment, shard, key)
);
comment on table trunkline.tube_parked is 'Keys that kept failing, set aside so that the others go on.';

create table trunkline.tube_backfill (
  backfill bigint generated always as identity constraint tube_backfill_pkey primary key,
  attachment int not null references trunkline.tube_table on delete cascade,
  status text not null check (status in ('running', 'paused', 'finishing', 'done', 'cancelled')),
  order_by text,
  chunk int not null check (chunk > 0),
  throttle interval not null,
  reached text[],
  keys_done bigint not null default 0,
  keys_estimate bigint not null,
  start_incarnation int not null,
  start_lsn pg_lsn not null,
  start_xid xid8 not null,
  started_at timestamptz not null default clock_timestamp(),
  stepped_at timestamptz,
  finished_at timestamptz,
  waits_for text
);
create unique index tube_backfill_active on trunkline.tube_backfill (attachment) where status in ('running', 'paused', 'finishing');
comment on table trunkline.tube_backfill is 'Backfills: chunks of a table emitted between two watermarks.';

create table trunkline.tube_downstream (
  tube_id int not null constraint tube_downstream_pkey primary key references trunkline.tube on delete cascade,
  kind text not null,
  options jsonb not null,
  changed_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.tube_downstream is 'Where the rows of a tube go when trunkline up runs it.';
