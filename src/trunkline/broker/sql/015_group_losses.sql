/* What left before a group had read it is noted with the group, and the first reader of a group that had none is told. */
alter table trunkline.broker_group
  add column lost bigint not null default 0,
  add column lost_first bigint,
  add column lost_last bigint,
  add column lost_at timestamptz,
  add column untold_from bigint;
comment on column trunkline.broker_group.lost is 'Deliveries that have left before the group had read them, in all.';
comment on column trunkline.broker_group.lost_first is 'The first of those that left the last time.';
comment on column trunkline.broker_group.lost_last is 'The last of those that left the last time.';
comment on column trunkline.broker_group.lost_at is 'The last time that some left.';
comment on column trunkline.broker_group.untold_from is 'The first that left while the group had no handler: the next reader of all begins with it, and is told.';
-- how many they were is no longer known
update trunkline.broker_group g set untold_from = g.begins_after + 1
 where g.trimmed_to > g.begins_after and not exists (select from trunkline.broker_handler h where h.group_id = g.group_id);
/* Its answer grew: what is made anew from its file must not stand beside what was there. */
drop function if exists trunkline.broker_groups();
