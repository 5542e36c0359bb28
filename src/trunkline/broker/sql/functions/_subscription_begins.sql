/* The first position that a new subscription wants.  A tick may outlive its events: what is there is told by them.
   Errors: TL410 when events from there on have left, TL422. */
create or replace function trunkline._subscription_begins(from_position bigint, from_time timestamptz)
returns bigint language plpgsql stable as $$
declare
  head bigint := trunkline.broker_head();
  first_one bigint := (select min(t.first_position) from trunkline.tick t where t.sequence = 'event');
begin
  if from_position is not null and from_time is not null then
    raise exception using errcode = 'TL422', message = 'begin at a position or at a time, not both.';
  elsif from_position < 1 then
    raise exception using errcode = 'TL422', message = format('positions begin at 1, got %s.', from_position);
  elsif from_position > head + 1 then
    raise exception using errcode = 'TL422', message = format('position %s does not exist yet: the last one is %s.', from_position, head),
      hint = 'Leave from_position out to begin with the next event.', detail = jsonb_build_object('head', head)::text;
  elsif from_position < coalesce(first_one, head + 1) then
    raise exception using errcode = 'TL410', message = format('events from position %s on have left; the first one there is %s.', from_position, coalesce(first_one, head + 1)),
      hint = 'Begin there.', detail = jsonb_build_object('first', coalesce(first_one, head + 1))::text;
  elsif from_position <= head and not exists (select from trunkline._event_rows(array[from_position])) then
    perform trunkline._event_left(from_position);
  elsif from_time is not null then
    -- a tick holds events of one moment: whoever begins in its middle gets the whole of it
    return coalesce((select t.first_position from trunkline.tick t where t.sequence = 'event' and t.at >= from_time order by t.first_position limit 1), head + 1);
  end if;
  return coalesce(from_position, head + 1);
end $$;
