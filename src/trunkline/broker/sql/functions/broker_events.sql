/* Events by position from from_position on, at most max_events, up to to_position (else the last that is numbered);
   only those of some topics, if any are named: ticks tell the topic, other events are not looked at.  Fewer rows than
   max_events mean that the range was read to its end.  Reads only.
   The server cannot send an event with more than 1 GB as text: name the other columns then; clients do so by themselves.
   Events of watched tables are shown to roles with "read" on the table, or with SELECT on the whole table and no row-level security; others are left out.
   Errors: TL410 events of the range have left, TL422. */
create or replace function trunkline.broker_events(
  from_position bigint, max_events int default 1000, topics text[] default null, to_position bigint default null)
returns table (up_to bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, subscription bigint, at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select e.* from trunkline._broker_events_for($1, $2, $3, $4, trunkline._caller()) e;
$$;
comment on function trunkline.broker_events(bigint, int, text[], bigint) is 'Events by position, all or those of some topics.';
select trunkline._access('broker_events(bigint, int, text[], bigint)', 'reader');
