/* How far the deliveries of a group have left, also those that it had read: whoever goes back to them is told. */
alter table trunkline.broker_group add column left_to bigint not null default 0;
comment on column trunkline.broker_group.trimmed_to is 'The last delivery of the group that has left before it was read.';
comment on column trunkline.broker_group.left_to is 'The last delivery of the group that has left, read or not.';
