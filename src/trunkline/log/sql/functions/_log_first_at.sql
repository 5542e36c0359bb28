/* When the first batch of a segment was appended; NULL while it is empty, or when it was dropped. */
create or replace function trunkline._log_first_at(segment_id bigint)
returns timestamptz language plpgsql stable as $$
declare
  first_at timestamptz;
begin
  execute format('select b.at from trunkline.log_segment_%s b order by b.base_offset limit 1', segment_id) into first_at;
  return first_at;
exception when undefined_table then
  return null;
end $$;
