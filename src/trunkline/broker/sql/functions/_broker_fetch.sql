/* broker_fetch for a reader that need not be registered. */
create or replace function trunkline._broker_fetch(present trunkline.broker_group, reader trunkline.broker_handler, lanes int[], after bigint[], max_events int)
returns table (lane int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean)
language plpgsql stable as $$
begin
  if max_events is null or max_events < 1 then
    raise exception using errcode = 'TL422', message = format('max_events is at least 1, got %s.', coalesce(max_events::text, 'NULL'));
  elsif lanes is null or after is null or cardinality(lanes) <> cardinality(after)
     or exists (select from unnest(lanes, after) l (lane, after) where l.lane is null or l.lane not between 0 and present.lanes - 1 or l.after is null) then
    raise exception using errcode = 'TL422', message = format('lanes are numbers from 0 to %s, each with the delivery to begin after, got %s after %s.', present.lanes - 1,
      coalesce(lanes::text, 'NULL'), coalesce(after::text, 'NULL'));
  elsif exists (select from unnest(after) a where a < present.trimmed_to) then
    perform trunkline._broker_refuse_trimmed(present, (select min(a) from unnest(after) a));
  end if;
  reader.group_id := present.group_id;
  return query
    select lanes[a.place], a.up_to, a.event_position, a.event_id, a.topic, a.key, a.payload, a.metadata, a.at, a.subscriptions, a.blocked
      from trunkline._broker_ahead(array_fill(reader, array[cardinality(lanes)]), lanes, after, array_fill(max_events, array[cardinality(lanes)])) a;
end $$;
