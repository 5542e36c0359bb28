/* Give partitions of an assigned group back; without a list, all, and leave the group. */
create or replace function trunkline.log_leave(topic text, group_name text, process uuid, member text default '', partitions int[] default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
begin
  update trunkline.owner o set process = null, since = clock_timestamp()
    from trunkline.log_partition p
   where p.topic_id = settings.topic_id and (log_leave.partitions is null or p.partition = any (log_leave.partitions))
     and o.resource = trunkline._log_resource(p.topic_id, log_leave.group_name, p.partition)
     and o.process = log_leave.process and o.member = log_leave.member;
  if partitions is null then
    delete from trunkline.log_member m where m.topic_id = settings.topic_id and m.group_name = log_leave.group_name
       and m.process = log_leave.process and m.member = log_leave.member;
  end if;
end $$;
comment on function trunkline.log_leave(text, text, uuid, text, int[]) is 'Give partitions back, or leave the group.';
select trunkline._access('log_leave(text, text, uuid, text, int[])', 'reader');
