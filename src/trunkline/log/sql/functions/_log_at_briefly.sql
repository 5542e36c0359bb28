/* When the first message from an offset on was appended, exact to the batch; NULL when there is none.
   The segments are let go at once: see _log_tail_briefly(). */
create or replace function trunkline._log_at_briefly(part trunkline.log_partition, from_offset bigint)
returns timestamptz language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  segment bigint;
  appended_at timestamptz;
begin
  for segment in
    select s.segment_id from trunkline.log_segment s
     where s.topic_id = part.topic_id and s.partition = part.partition and (s.last_offset is null or s.last_offset >= from_offset)
     order by s.first_offset
  loop
    execute format(
      'select b.at from trunkline.log_segment_%1$s b
        where b.base_offset >= coalesce((select f.base_offset from trunkline.log_segment_%1$s f where f.base_offset <= $1 order by f.base_offset desc limit 1), 0)
          and b.last_offset >= $1
        order by b.base_offset limit 1', segment) into appended_at using from_offset;
    exit when appended_at is not null;  -- else compaction has left nothing there
  end loop;
  raise sqlstate 'LETGO';
exception when undefined_table or sqlstate 'LETGO' then
  return appended_at;
end $$;
