/* Give partitions of an assigned group back; without a list, all, and leave the group. */
create or replace function trunkline.log_leave(topic text, group_name text, process uuid, member text default '', partitions int[] default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
begin
  perform trunkline._log_group_may(topic, group_name, 'consume');
  perform trunkline._party_leave(trunkline._log_party(settings.topic_id, group_name),
    trunkline._log_resources(settings.topic_id, group_name, partitions), process, coalesce(member, ''), partitions is null);
end $$;
comment on function trunkline.log_leave(text, text, uuid, text, int[]) is 'Give partitions back, or leave the group.';
select trunkline._access('log_leave(text, text, uuid, text, int[])', 'reader');
