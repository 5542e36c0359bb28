/* A copy of the files of a server goes back in time, and neither its system identifier nor its timeline shows it.  Each start of the server is
   therefore compared with what peers know of it. */
alter table trunkline.kv_life add column started_at timestamptz, add column start_head bigint, add column start_snapshot pg_snapshot, add column proved_at timestamptz;
comment on column trunkline.kv_life.started_at is 'The last start of the server that was noted: pg_postmaster_start_time().';
comment on column trunkline.kv_life.start_head is 'The last position that was numbered before that start.';
comment on column trunkline.kv_life.start_snapshot is 'What was numbered by then.';
comment on column trunkline.kv_life.proved_at is 'The last start at which every peer knew nothing that this copy lacks.';
alter table trunkline.kv_peer add column proved_at timestamptz;
comment on column trunkline.kv_peer.proved_at is 'The last start of this server at which the peer knew nothing that this copy lacks.';
drop function if exists trunkline.kv_hello(text);
drop function if exists trunkline.kv_pulled(text);
