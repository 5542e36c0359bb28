/* broker_scan() for when its answer is larger than the server can send: see _broker_fetch_readable(). */
create or replace function trunkline._broker_scan_readable(
  condition text default null, params jsonb default '{}', after bigint default null, max_events int default 1000, incarnation int default null)
returns table (up_to bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, unread boolean)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select s.up_to, s.event_id, s.topic, s.key, case when not u.unread then s.payload end, case when not u.unread then s.metadata end, s.at, u.unread
    from trunkline.broker_scan($1, $2, $3, $4, $5) with ordinality s
   cross join lateral (select trunkline._event_unsendable(s.payload, s.metadata) as unread offset 0) u
   order by s.ordinality;
$$;
select trunkline._access('_broker_scan_readable(text, jsonb, bigint, int, int)', 'reader');
