/* The last offset of a partition; one less than the first when it is empty, NULL when its topic was deleted.
   The segment may have left between the look at the partition and this one: then it looks again, which needs a
   snapshot that moves, so a transaction in REPEATABLE READ is told with 40001. */
create or replace function trunkline._log_tail(part trunkline.log_partition)
returns bigint language plpgsql as $$
declare
  present trunkline.log_partition := part;
  tail bigint;
begin
  for attempt in 1 .. 10 loop
    begin
      execute format('select b.last_offset from trunkline.log_segment_%s b order by b.base_offset desc limit 1', present.segment_id) into tail;
      return coalesce(tail, present.segment_first - 1);
    exception when undefined_table then
      select p.* into present from trunkline.log_partition p where p.topic_id = part.topic_id and p.partition = part.partition;
      if not found then
        return null;
      end if;
    end;
  end loop;
  perform trunkline._log_left();
end $$;
