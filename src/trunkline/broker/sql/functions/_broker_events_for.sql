/* broker_events() for a role: without events of watched tables that it may not see.  NULL: for none in particular, all of them. */
create or replace function trunkline._broker_events_for(from_position bigint, max_events int, topics text[], to_position bigint, role name)
returns table (up_to bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, subscription bigint, at timestamptz)
language plpgsql stable as $$
declare
  next_one bigint := greatest(from_position, 1);
  last_one bigint := least(to_position, trunkline.broker_head());
  missing int := max_events;
  places bigint[];
  there int;
  given int;
  readable int[] := case when role is not null then trunkline._watch_readable(role) end;
begin
  if from_position is null or max_events is null or max_events < 1 then
    perform trunkline._raise('TL422', 'from_position is a number, max_events is at least 1.');
  end if;
  while missing > 0 and next_one <= last_one loop
    places := array(select p.up_to from trunkline._event_positions(next_one, last_one, topics, missing) p order by p.up_to);
    if cardinality(places) = missing then
      next_one := places[missing] + 1;
    else
      next_one := last_one + 1;
    end if;
    if places = '{}' then
      return;
    end if;
    return query
      select e.event_position, e.event_id, e.topic, e.key, e.payload, e.metadata, e.subscription, e.at
        from trunkline._event_rows(places) e where (topics is null or e.topic = any (topics)) and (e.watch is null or readable is null or e.watch = any (readable)) order by e.event_position;
    get diagnostics given = row_count;
    if given < cardinality(places) then
      select count(*) into there from trunkline._event_rows(places) e;
      if there < cardinality(places) then
        perform trunkline._event_left(from_position);
      end if;
    end if;
    missing := missing - given;
  end loop;
end $$;
