/* Keys and values that every zone may write, converging everywhere.  What changed is numbered after commit by core/sequence, and
   peers pull it by position.  The reasons are in docs/explanation/converging.md. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('kv.max_skew', '1 minute', '1 minute', 'interval', '1 second',
   'how far a clock may be ahead of all others before it stamps nothing, and what it stamped is held back elsewhere'),
  ('kv.dead_keep', '1 hour', '1 hour', 'interval', '0', 'how long a key that was deleted or has expired is remembered at least'),
  ('kv.peer_patience', '7 days', '7 days', 'interval', '10 minutes',
   'how long changes and deleted keys wait for a peer that is away; later it has to begin anew'),
  ('kv.history', '1 hour', '1 hour', 'interval', '0', 'how long changes stay for those who watch'),
  ('kv.key_bytes', '512', '512', 'int', '1', 'how long a key may be'),
  ('kv.value_bytes', '1048576', '1048576', 'int', '1', 'how large a value may be');

/* One row per life of this copy: a failover, a restore or a forgotten peer begins another.  A new life has a new origin, so that
   nothing that it stamps or counts is taken for what was lost, and must learn from its peers which of its keys were deleted meanwhile. */
create table trunkline.kv_life (
  life int generated always as identity constraint kv_life_pkey primary key,
  origin bigint not null constraint kv_life_origin unique,
  incarnation int not null,
  xid_space int not null,
  snapshot pg_snapshot not null,
  began_after bigint not null,
  whole boolean not null,
  began_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.kv_life is 'Lives of this copy of the keys. The last one of the present incarnation counts.';
comment on column trunkline.kv_life.began_after is 'The last position that was numbered when it began.';
comment on column trunkline.kv_life.whole is 'False until peers have said which keys of the life before were deleted meanwhile.';

create table trunkline.kv_entry (
  namespace text not null,
  key text collate "C" not null,
  value jsonb,
  stamp bigint not null,
  origin bigint not null,
  expires_at timestamptz,
  counted_stamp bigint not null default 0,
  counted_until timestamptz,
  dead_at timestamptz,
  xid_space int not null,
  xid xid8 not null,
  constraint kv_entry_pkey primary key (namespace, key)
) with (fillfactor = 80);
create index kv_entry_dead on trunkline.kv_entry (dead_at) where dead_at is not null;
comment on table trunkline.kv_entry is 'Keys. The value with the highest (stamp, origin) wins everywhere.';
comment on column trunkline.kv_entry.value is 'NULL: deleted, or made of counters alone.';
comment on column trunkline.kv_entry.stamp is 'Microseconds since 1970 by the clock of who wrote, but above what it replaced.';
comment on column trunkline.kv_entry.counted_until is 'Until when the counters of the key count; NULL: a put or delete has ended them.';
comment on column trunkline.kv_entry.dead_at is 'Since when, or from when on, nobody can read the key; NULL: it lives for ever.';

create table trunkline.kv_counter (
  namespace text not null,
  key text collate "C" not null,
  field text not null,
  origin bigint not null,
  generation bigint not null,
  version bigint not null,
  sum numeric not null,
  gone_version bigint not null default 0,
  gone_sum numeric not null default 0,
  constraint kv_counter_pkey primary key (namespace, key, field, origin)
) with (fillfactor = 80);
comment on table trunkline.kv_counter is 'What each origin has added to a field of a key, and how much of it a delete or put has taken away.';
comment on column trunkline.kv_counter.generation is 'The stamp at which the origin began to count; a later one replaces all before.';

/* kv_change is the source of the sequence of the same name. */
create sequence trunkline.kv_seq;
create table trunkline.kv_change (
  slot int not null,
  xid_space int not null,
  xid xid8 not null,
  seq bigint not null,
  namespace text not null,
  key text collate "C" not null,
  via bigint not null,
  constraint kv_change_pkey primary key (xid, seq, slot)
) partition by list (slot);
comment on table trunkline.kv_change is 'Which keys changed here. What they are now is in kv_entry.';
comment on column trunkline.kv_change.via is 'The origin that it came from: it need not be told.';

create table trunkline.kv_here (
  one boolean constraint kv_here_pkey primary key default true check (one),
  zone text not null,
  shard text not null
);
comment on table trunkline.kv_here is 'Which instance of the parade this database is. No row: it stands alone.';

create table trunkline.kv_peer (
  instance text constraint kv_peer_pkey primary key,
  origin bigint,
  head bigint,
  level_at timestamptz,
  skew interval,
  heard_at timestamptz,
  error text,
  failed_at timestamptz,
  asked_origin bigint,
  asked_at timestamptz
);
comment on table trunkline.kv_peer is 'What this instance knows of the others.';
comment on column trunkline.kv_peer.level_at is 'When everything that the peer had was here.';
comment on column trunkline.kv_peer.asked_origin is 'The life of the peer that pulls from here.';

create table trunkline.kv_held (
  namespace text not null,
  key text collate "C" not null,
  via bigint not null,
  stamp bigint not null,
  state jsonb not null,
  held_at timestamptz not null default clock_timestamp(),
  constraint kv_held_pkey primary key (namespace, key, via)
);
comment on column trunkline.kv_held.via is 'The origin that told it.';
comment on table trunkline.kv_held is 'Keys from a clock that is too far ahead: applied and passed on when time has come so far.';

create table trunkline.kv_clock (
  one boolean constraint kv_clock_pkey primary key default true check (one),
  floor bigint not null default 0,
  ahead interval,
  ahead_at timestamptz,
  stale_since timestamptz,
  stale_at timestamptz
);
insert into trunkline.kv_clock default values;
comment on table trunkline.kv_clock is 'What bounds the stamps given out here.';
comment on column trunkline.kv_clock.floor is 'The highest stamp of what was forgotten: new ones are above it.';
comment on column trunkline.kv_clock.ahead is 'How far this clock is ahead of every peer, where that is too far; it holds for five minutes after ahead_at.';
comment on column trunkline.kv_clock.stale_since is 'Since when peers are seen to be away for too long without a break; stale_at is when that was last seen.';

