/* The id that the text form of an event id tells.
   Errors: TL422 for a text that event_id_text() does not make. */
create or replace function trunkline.event_id(event_id_text text)
returns bigint language plpgsql immutable strict parallel safe as $$
begin
  if event_id_text !~ '^ev[0-9a-f]{14}[0-7][0-9a-f]{15}$' then
    raise exception using errcode = 'TL422', message = format('the text of an event id is ev and 30 hexadecimal digits, got %s.', to_json(left(event_id_text, 80)));
  end if;
  return ('x' || substr(event_id_text, 17))::bit(64)::bigint;
end $$;
comment on function trunkline.event_id(text) is 'The id that the text form of an event id tells.';
select trunkline._access('event_id(text)', 'reader');
