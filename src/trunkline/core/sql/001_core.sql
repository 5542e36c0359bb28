/* What every capability stands on: configuration, roles, incarnations, leases, owners, rings,
   cursors and ticks.  The reasons are in docs/explanation. */

create table trunkline.config (
  name text constraint config_pkey primary key,
  value text not null,
  default_value text not null,
  type text not null,
  minimum text,
  description text not null
);
comment on table trunkline.config is 'Settings of this installation. Change them with config_set().';

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('lease.ttl', '30 seconds', '30 seconds', 'interval', '1 second',
   'how long a process may be silent before others take over what it owns'),
  ('maintain.lock_timeout', '100 milliseconds', '100 milliseconds', 'interval', '1 millisecond',
   'how long maintenance may make others wait for a lock before it gives up until the next round'),
  ('maintain.settle', '1 minute', '1 minute', 'interval', '0',
   'how long the rows of a ring slot must have been unneeded before it is emptied: TRUNCATE hides them from older snapshots too');

/* One row per life of this schema: a restore brings another server, database or schema, a failover a new
   timeline.  Numbers rise, with random gaps: two restores of one dump shall not share a number.  xid_space is the
   same as long as xids are comparable: a failover keeps it, a restore does not. */
create table trunkline.incarnation (
  incarnation int constraint incarnation_pkey primary key,
  follows int not null constraint incarnation_follows unique,
  system_identifier bigint not null,
  timeline int not null,
  database oid not null,
  schema oid not null,
  xid_space int not null,
  began_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.incarnation is 'Lives of the server: rows and tokens carry the one that issued them.';

create table trunkline.lease (
  process uuid constraint lease_pkey primary key,
  name text not null,
  started_at timestamptz not null,
  expires timestamptz not null
) with (fillfactor = 50);
comment on table trunkline.lease is 'Living processes. The only rows that an idle process writes.';

create table trunkline.owner (
  resource text constraint owner_pkey primary key,
  epoch bigint not null,
  process uuid,
  member text not null default '',
  since timestamptz not null
) with (fillfactor = 70);
create index owner_process on trunkline.owner (process) where process is not null;
comment on table trunkline.owner is 'Who works on what. The epoch rises with every hand-over and fences the one before.';

create table trunkline.party (
  party text not null,
  process uuid not null,
  member text not null,
  joined_at timestamptz not null default clock_timestamp(),
  constraint party_pkey primary key (party, process, member)
);
comment on table trunkline.party is 'Who shares a set of resources with whom. A member lives as long as the lease of its process.';

create table trunkline.ring (
  ring text constraint ring_pkey primary key,
  current int not null default 0,
  may_leave text not null,
  rotated_at timestamptz not null default clock_timestamp(),
  held_since timestamptz,
  held_by text
);
comment on table trunkline.ring is 'Insert-only tables that leave by TRUNCATE of one slot. may_leave names the function that decides.';

create table trunkline.ring_slot (
  ring text not null references trunkline.ring on delete cascade,
  slot int not null,
  left_at timestamptz,
  free_since timestamptz,
  snapshot pg_snapshot,
  xid_space int,
  up_to bigint,
  constraint ring_slot_pkey primary key (ring, slot)
);
comment on table trunkline.ring_slot is
  'Slots of rings. left_at is set while a slot waits to be emptied, free_since while nobody needs its rows.';

/* Cursors: a static row to lock, and insert-only positions. */
create table trunkline.cursor_key (
  cursor_id bigint generated always as identity constraint cursor_key_pkey primary key,
  resource text not null constraint cursor_key_resource unique
);
comment on table trunkline.cursor_key is 'Static row of a cursor: locked to move it, never updated.';

create sequence trunkline.cursor_seq;
create table trunkline.cursor (
  slot int not null,
  cursor_id bigint not null,
  seq bigint not null,
  up_to bigint not null,
  state jsonb,
  at timestamptz not null,
  constraint cursor_pkey primary key (cursor_id, seq, slot)
) partition by list (slot);
comment on table trunkline.cursor is 'Positions, insert-only: the one with the highest seq counts.';

/* Snapshot ticks. */
create table trunkline.sequence (
  sequence text constraint sequence_pkey primary key,
  source text not null,
  keep_from text not null,
  tag text not null
);
comment on table trunkline.sequence is
  'Tables whose rows are numbered after commit. keep_from names the function that tells the lowest position still needed; tag is an expression over the row that readers filter ticks by.';

create table trunkline.tick (
  slot int not null,
  sequence text not null,
  tick bigint not null,
  first_position bigint not null,
  n int not null,
  xid_space int not null,
  spaces_before int[] not null,
  snapshot pg_snapshot not null,
  xids xid8[] not null,
  seqs bigint[] not null,
  tags bigint[],
  at timestamptz not null,
  constraint tick_pkey primary key (sequence, tick, slot)
) partition by list (slot);
create index tick_position on trunkline.tick (sequence, first_position);
comment on table trunkline.tick is 'What became visible between two snapshots, numbered in the order of seq.';
comment on column trunkline.tick.spaces_before is 'Xid spaces of earlier lives: all their rows are numbered.';

/* Work that maintain() does, one bounded step after the other. */
create table trunkline.duty (
  duty text constraint duty_pkey primary key,
  rank int not null,
  ran_at timestamptz,
  failed_at timestamptz,
  error text
);
comment on table trunkline.duty is 'Functions that maintain() calls until each says that nothing is left.';

/* Which role may call what; kept so that roles made later can be granted by roles_grant(). */
create table trunkline.access (
  signature text constraint access_pkey primary key,
  role text not null check (role in ('public', 'reader', 'writer', 'admin'))
);
comment on table trunkline.access is 'Which role may call what. roles_grant() makes it so.';
