/* When a lease was renewed: in the future, if the clock was ahead then. */
alter table trunkline.lease add column renewed_at timestamptz;
comment on column trunkline.lease.renewed_at is 'The renewal that says when it expires; NULL for one that is older than this column.';
