/* When the first batch of a segment was appended; NULL while it is empty, or when it was dropped.
   The segment is let go at once: see _log_tail_briefly(). */
create or replace function trunkline._log_first_at(segment_id bigint)
returns timestamptz language plpgsql stable as $$
declare
  first_at timestamptz;
begin
  execute format('select b.at from trunkline.log_segment_%s b order by b.base_offset limit 1', segment_id) into first_at;
  raise sqlstate 'LETGO';
exception when undefined_table or sqlstate 'LETGO' then
  return first_at;
end $$;
