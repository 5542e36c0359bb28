/* The answer that a producer got for this number before; TL409 when a later number of it is stored but not this. */
create or replace function trunkline._log_repeated(
  segment_id bigint, previous_id bigint, producer_id uuid, producer_seq bigint, out first_offset bigint, out last_offset bigint, out at timestamptz)
language plpgsql stable as $$
declare
  segment bigint;
  newest bigint;
  seen bigint;
begin
  foreach segment in array array_remove(array[segment_id, previous_id], null) loop
    execute format('select d.base_offset, d.last_offset, d.at from trunkline.log_segment_%s d where d.producer_id = $1 and d.producer_seq = $2', segment)
      into first_offset, last_offset, at using producer_id, producer_seq;
    if first_offset is not null then
      return;
    end if;
    execute format('select max(d.producer_seq) from trunkline.log_segment_%s d where d.producer_id = $1', segment) into seen using producer_id;
    newest := greatest(newest, seen);
  end loop;
  raise exception using errcode = 'TL409', message = format('producer %s already stored number %s, got %s.', producer_id, newest, producer_seq),
    hint = 'Numbers of a producer rise; a repeat must be one of the newest.', detail = jsonb_build_object('producer_seq', producer_seq, 'newest', newest)::text;
end $$;
