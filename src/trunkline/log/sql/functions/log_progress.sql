/* Note how far a reader is that keeps its offsets elsewhere (Spark in its checkpoint), as an assigned group: it shows in
   log_groups() and log_lag().  Goes forward only; what is noted already writes nothing.
   Errors: TL404, TL409 a living member owns a partition of the group, or the group is shared; TL422 beyond the last offset or negative. */
create or replace function trunkline.log_progress(topic text, group_name text, partitions int[], up_to bigint[])
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  part trunkline.log_partition;
  place record;
  name text;
  held trunkline.cursor;
  tail bigint;
begin
  if cardinality(partitions) is distinct from cardinality(up_to) then
    raise exception using errcode = 'TL422', message = format('%s came with %s.', trunkline._counted(cardinality(partitions), 'partition'), trunkline._counted(cardinality(up_to), 'offset'));
  end if;
  perform trunkline._log_group_may(topic, group_name, 'consume');
  perform trunkline._log_group_ensure(settings, group_name, 'assigned', 'earliest');
  for place in select u.partition, u.up_to from unnest(partitions, up_to) u (partition, up_to) order by 1 loop
    part := trunkline._log_partition_row(topic, place.partition);
    name := trunkline._log_resource(settings.topic_id, group_name, place.partition);
    if exists (select from trunkline.owner o where o.resource = name and trunkline._lease_living(o.process)) then
      raise exception using errcode = 'TL409', message = format('partition %s of group "%s" has a living member.', place.partition, group_name),
        hint = 'Give the reader another group.';
    end if;
    if place.up_to < 0 then
      raise exception using errcode = 'TL422', message = format('up_to is the last offset that is done, 0 for none, got %s.', place.up_to);
    elsif coalesce(place.up_to > greatest((trunkline._cursor_latest(trunkline._cursor_ensure(name))).up_to, 0), true) then
      tail := trunkline._log_tail(part);
      if place.up_to > tail and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception using errcode = '40001', message = format('could not serialize progress: the snapshot of this transaction ends at offset %s', tail);
      elsif place.up_to is null or place.up_to > tail then
        raise exception using errcode = 'TL422', message = format('partition %s of "%s" ends at %s, cannot note %s.', place.partition, topic, tail, coalesce(place.up_to::text, 'NULL')),
          detail = jsonb_build_object('last', tail, 'asked', place.up_to)::text;
      end if;
      held := trunkline._cursor_hold(name);
      if place.up_to > greatest(held.up_to, 0) then
        perform trunkline._cursor_move(held, place.up_to);
      end if;
      perform trunkline._log_group_check(settings, group_name);
    end if;
  end loop;
end $$;
comment on function trunkline.log_progress(text, text, int[], bigint[]) is 'Note how far a reader is that keeps its offsets elsewhere.';
select trunkline._access('log_progress(text, text, int[], bigint[])', 'reader');
