/* Whose process it is: others may not end it. */
alter table trunkline.lease add column role name;
comment on column trunkline.lease.role is 'Who took the lease; NULL for one that is older than this column.';
