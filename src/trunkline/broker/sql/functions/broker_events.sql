/* Events by position from from_position on, at most max_events, up to to_position (else the last that is numbered);
   only those of some topics, if any are named: ticks tell the topic, other events are not looked at.  Fewer rows than
   max_events mean that the range was read to its end.  Reads only.
   The server cannot send an event with more than 1 GB as text: name the other columns then; clients do so by themselves.
   Errors: TL410 events of the range have left, TL422. */
create or replace function trunkline.broker_events(
  from_position bigint, max_events int default 1000, topics text[] default null, to_position bigint default null)
returns table (up_to bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, subscription bigint, at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  readable int[] := trunkline._watch_readable(trunkline._caller());
  next_one bigint := greatest(from_position, 1);
  last_one bigint := least(to_position, trunkline.broker_head());
  missing int := max_events;
  places bigint[];
  there int;
  given int;
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
        from trunkline._event_rows(places) e where (topics is null or e.topic = any (topics)) and (e.watch is null or coalesce(e.watch = any (readable), true)) order by e.event_position;
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
comment on function trunkline.broker_events(bigint, int, text[], bigint) is 'Events by position, all or those of some topics.';
select trunkline._access('broker_events(bigint, int, text[], bigint)', 'reader');
