/* The session of a process: while it holds the lock of the process, the process is there. */
alter table trunkline.lease add column session_since timestamptz, add column missing_since timestamptz;
comment on column trunkline.lease.session_since is 'Since when a session of the process holds its lock; NULL: only the lease says whether it lives.';
comment on column trunkline.lease.missing_since is 'Since when the lock is seen to be free; NULL: it is held.';
