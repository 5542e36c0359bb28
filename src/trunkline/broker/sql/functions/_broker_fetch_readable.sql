/* broker_fetch() for when its answer is larger than the server can send: events that are too large by themselves come without payload and
   metadata, and are unread.  To find them takes long. */
create or replace function trunkline._broker_fetch_readable(group_name text, handler text, lanes int[], after bigint[], max_events int default 1000)
returns table (lane int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean, unread boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select f.lane, f.up_to, f.event_position, f.event_id, f.topic, f.key, case when not u.unread then f.payload end, case when not u.unread then f.metadata end,
         f.at, f.subscriptions, f.blocked, u.unread
    from trunkline.broker_fetch($1, $2, $3, $4, $5) with ordinality f
   cross join lateral (select trunkline._event_unsendable(f.payload, f.metadata) as unread offset 0) u
   order by f.ordinality;
$$;
select trunkline._access('_broker_fetch_readable(text, text, int[], bigint[], int)', 'reader');
