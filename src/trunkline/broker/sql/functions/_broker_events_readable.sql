/* broker_events() for when its answer is larger than the server can send: see _broker_fetch_readable(). */
create or replace function trunkline._broker_events_readable(
  from_position bigint, max_events int default 1000, topics text[] default null, to_position bigint default null)
returns table (up_to bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, subscription bigint, at timestamptz, unread boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select e.up_to, e.event_id, e.topic, e.key, case when not u.unread then e.payload end, case when not u.unread then e.metadata end,
         e.subscription, e.at, u.unread
    from trunkline.broker_events($1, $2, $3, $4) with ordinality e
   cross join lateral (select trunkline._event_unsendable(e.payload, e.metadata) as unread offset 0) u
   order by e.ordinality;
$$;
select trunkline._access('_broker_events_readable(bigint, int, text[], bigint)', 'reader');
