/* The last offset of a partition; one less than the first when it is empty. */
create or replace function trunkline._log_tail(part trunkline.log_partition)
returns bigint language plpgsql stable as $$
declare
  tail bigint;
begin
  execute format('select b.last_offset from trunkline.log_segment_%s b order by b.base_offset desc limit 1', part.segment_id) into tail;
  return coalesce(tail, part.segment_first - 1);
end $$;
