/* Move a group to earliest, latest, an offset or a time, on one partition or all.  Members that run are
   fenced: their next commit is refused and they continue from the new position.  Claims in flight are forgotten.
   Returns where each partition continues.  After earliest that is wherever the log starts when the group next joins or claims: its
   cursor stands at -1 until then.  Errors: TL404, TL410 offset not there, TL422. */
create or replace function trunkline.log_seek(topic text, group_name text, start text, partition int default null)
returns table (to_partition int, from_offset bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  part trunkline.log_partition;
  name text;
begin
  perform trunkline._lock_briefly();
  perform trunkline._log_group_check(settings, group_name);
  perform trunkline._log_group_may(topic, group_name, 'manage');
  if partition is not null then
    perform trunkline._log_partition_row(topic, partition);
  end if;
  for part in select p.* from trunkline.log_partition p
               where p.topic_id = settings.topic_id and (log_seek.partition is null or p.partition = log_seek.partition) order by p.partition loop
    to_partition := part.partition;
    from_offset := trunkline._log_start(topic, part, start);
    name := trunkline._log_resource(part.topic_id, group_name, part.partition);
    perform trunkline._cursor_move(trunkline._cursor_hold(name), case when start = 'earliest' then -1 else from_offset - 1 end);
    update trunkline.owner o set epoch = o.epoch + 1, process = null, since = clock_timestamp() where o.resource = name;
    return next;
  end loop;
  perform trunkline._log_group_check(settings, group_name);
end $$;
comment on function trunkline.log_seek(text, text, text, int) is 'Move a group to earliest, latest, an offset or a time.';
select trunkline._access('log_seek(text, text, text, int)', 'writer');
