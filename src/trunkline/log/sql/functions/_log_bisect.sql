/* The first offset of a segment from low on that was appended at a time or later; high when there is none. */
create or replace function trunkline._log_bisect(segment trunkline.log_segment, low bigint, high bigint, at_time timestamptz)
returns bigint language plpgsql as $$
declare
  floor bigint := low;
  middle bigint;
  batch record;
begin
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
  return greatest(low, floor);
end $$;
