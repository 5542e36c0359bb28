/* Refuse to read from a position whose event has left, and say where everything is there: TL410. */
create or replace function trunkline._event_left(from_position bigint)
returns void language plpgsql stable as $$
declare
  first_one bigint := coalesce(trunkline._event_keep_from(), trunkline.broker_head() + 1);
begin
  raise exception using errcode = 'TL410', message = format('events from position %s on have left; from %s on all are there.', from_position, first_one),
    hint = 'Begin there, or keep events longer: config_set() of broker.retention.', detail = jsonb_build_object('from_position', from_position, 'first', first_one)::text;
end $$;
