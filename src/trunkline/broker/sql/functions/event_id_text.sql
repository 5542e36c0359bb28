/* The id of an event as a text of fixed width that also tells its time: texts sort as (time, id) do, in any collation.
   Errors: TL422 unless the id is positive and the time is between 1970 and 4000. */
create or replace function trunkline.event_id_text(event_id bigint, at timestamptz)
returns text language plpgsql immutable strict parallel safe as $$
begin
  if event_id < 1 or at < '1970-01-01 00:00:00+00' or at >= '4000-01-01 00:00:00+00' then
    raise exception using errcode = 'TL422', message = format('an event has an id from 1 on and a time from 1970 to 3999, got %s and %s.', event_id, at);
  end if;
  return 'ev' || lpad(to_hex((extract(epoch from at) * 1000000)::bigint), 14, '0') || lpad(to_hex(event_id), 16, '0');
end $$;
comment on function trunkline.event_id_text(bigint, timestamptz) is 'The id of an event as a text of fixed width that also tells its time.';
select trunkline._access('event_id_text(bigint, timestamptz)', 'reader');
