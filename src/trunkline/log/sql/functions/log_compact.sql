/* Compact a topic that was created with compact => true: of each key only the last value stays, a null value
   (tombstone) for log.tombstone_retention.  Offsets keep their numbers, so there may be holes.
   Returns a row per partition with how many messages left.  Appends wait only for the last, short step, in which
   the copies take their places; so call it in a transaction of its own.  Errors: TL404, TL422 not a compacted topic. */
create or replace function trunkline.log_compact(topic text, partition int default null)
returns table (in_partition int, removed bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  work jsonb := '[]';
  plan record;
begin
  if not settings.compact then
    raise exception using errcode = 'TL422', message = format('topic "%s" is not compacted.', topic), hint = 'Create a topic with compact => true.';
  elsif partition is not null then
    perform trunkline._log_partition_row(topic, partition);
  end if;
  for in_partition in select p.partition from trunkline.log_partition p
                       where p.topic_id = settings.topic_id and (log_compact.partition is null or p.partition = log_compact.partition) order by p.partition loop
    work := work || (jsonb_build_object('number', in_partition) || to_jsonb(trunkline._log_compact(topic, in_partition, true)));
  end loop;
  for plan in select w.* from jsonb_to_recordset(work) w (number int, segments bigint[], copies bigint[], copied bigint, removed bigint) loop
    perform trunkline._log_compact_swap(topic, plan.number, plan.segments, plan.copies, plan.copied);
    in_partition := plan.number;
    removed := plan.removed;
    return next;
  end loop;
end $$;
comment on function trunkline.log_compact(text, int) is 'Of each key only the last value stays; offsets keep their numbers.';
select trunkline._access('log_compact(text, int)', 'admin');
