/* The first offset that was appended at a time or later (exact to the batch); one past the last when
   everything is older.  Times never decrease inside a partition, so a bisection needs no index on time. */
create or replace function trunkline.log_offset_at(topic text, partition int, at_time timestamptz)
returns bigint language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  segment record;
  low bigint;
  high bigint;
  middle bigint;
  batch record;
begin
  if at_time is null then
    perform trunkline._raise('TL422', 'at_time must not be NULL.');
  end if;
  select s.* into segment from trunkline.log_segment s
   where s.topic_id = part.topic_id and s.partition = part.partition and (s.last_at is null or s.last_at >= at_time)
   order by s.first_offset limit 1;
  low := greatest(segment.first_offset, part.first_offset);
  high := coalesce(segment.last_offset, trunkline._log_tail(part)) + 1;
  while low < high loop
    middle := (low + high) / 2;
    execute format('select b.base_offset, b.last_offset, b.at from trunkline.log_segment_%s b where b.base_offset <= $1 order by b.base_offset desc limit 1', segment.segment_id)
      into batch using middle;
    if batch.base_offset is null then  -- compaction removed what was here
      low := middle + 1;
    elsif batch.at >= at_time then
      high := least(middle, batch.base_offset);
    else
      low := greatest(middle, batch.last_offset) + 1;
    end if;
  end loop;
  return greatest(low, part.first_offset);
end $$;
comment on function trunkline.log_offset_at(text, int, timestamptz) is 'The first offset appended at a time or later.';
select trunkline._access('log_offset_at(text, int, timestamptz)', 'reader');
