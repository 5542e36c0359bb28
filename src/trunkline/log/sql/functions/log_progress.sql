/* Note how far a reader is that keeps its offsets elsewhere (Spark in its checkpoint), as an assigned group: it shows in
   log_groups() and log_lag().  Goes forward only; what is noted already writes nothing.
   Errors: TL404, TL409 a living member owns a partition of the group, or the group is shared; TL422. */
create or replace function trunkline.log_progress(topic text, group_name text, partitions int[], up_to bigint[])
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  place record;
  name text;
  cursor_id bigint;
begin
  if cardinality(partitions) is distinct from cardinality(up_to) then
    perform trunkline._raise('TL422', format('%s partitions came with %s offsets.', cardinality(partitions), cardinality(up_to)));
  end if;
  perform trunkline._log_group_ensure(settings, group_name, 'assigned', 'earliest');
  for place in select u.partition, u.up_to from unnest(partitions, up_to) u (partition, up_to) order by 1 loop
    perform trunkline._log_partition_row(topic, place.partition);
    name := trunkline._log_resource(settings.topic_id, group_name, place.partition);
    if exists (select from trunkline.owner o where o.resource = name and trunkline._lease_living(o.process)) then
      perform trunkline._raise('TL409', format('partition %s of group "%s" has a living member.', place.partition, group_name), 'Give the reader another group.');
    end if;
    cursor_id := trunkline._cursor_ensure(name);
    if place.up_to > coalesce((trunkline._cursor_latest(cursor_id)).up_to, 0) then
      perform trunkline._cursor_lock(cursor_id);
      if place.up_to > coalesce((trunkline._cursor_latest(cursor_id)).up_to, 0) then
        perform trunkline._cursor_write(cursor_id, place.up_to);
      end if;
    end if;
  end loop;
end $$;
comment on function trunkline.log_progress(text, text, int[], bigint[]) is 'Note how far a reader is that keeps its offsets elsewhere.';
select trunkline._access('log_progress(text, text, int[], bigint[])', 'reader');
