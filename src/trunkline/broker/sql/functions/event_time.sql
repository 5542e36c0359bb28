/* The time that the text form of an event id tells, exact to the microsecond.
   Errors: TL422 for a text that event_id_text() does not make. */
create or replace function trunkline.event_time(event_id_text text)
returns timestamptz language plpgsql immutable strict parallel safe as $$
begin
  if event_id_text !~ '^ev[0-9a-f]{14}[0-7][0-9a-f]{15}$' then
    raise exception using errcode = 'TL422', message = format('the text of an event id is ev and 30 hexadecimal digits, got %s.', to_json(left(event_id_text, 80)));
  end if;
  return timestamptz '1970-01-01 00:00:00+00'
       + ('x' || substr(event_id_text, 3, 14))::bit(56)::bigint / 1000000 * interval '1 second'
       + ('x' || substr(event_id_text, 3, 14))::bit(56)::bigint % 1000000 * interval '1 microsecond';
end $$;
comment on function trunkline.event_time(text) is 'The time that the text form of an event id tells.';
select trunkline._access('event_time(text)', 'reader');
