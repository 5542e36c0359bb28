/* What lies ahead in some lanes for a handler, after the given deliveries: events in order, each once, with the
   subscriptions that it is for; blocked says that an earlier event of its key failed and is not settled.  up_to is what to
   commit when the event is done.  A last row of a lane without an event says how far was looked: nothing else was for
   the handler up to there.  A row with nothing but a position stands for an event that has left.  No row for a lane: nothing is
   new.  Reads only.
   Errors: TL404, TL410 with the first delivery there is, TL422. */
create or replace function trunkline.broker_fetch(group_name text, handler text, lanes int[], after bigint[], max_events int default 1000)
returns table (lane int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select f.* from trunkline._broker_group_for(group_name, 'consume') g cross join lateral trunkline._broker_handler_row(g, handler) h
    cross join lateral trunkline._broker_fetch(g, h, broker_fetch.lanes, broker_fetch.after, broker_fetch.max_events) f;
$$;
comment on function trunkline.broker_fetch(text, text, int[], bigint[], int) is 'What lies ahead in some lanes for a handler, in order.';
select trunkline._access('broker_fetch(text, text, int[], bigint[], int)', 'reader');
