/* broker_read() for when its answer is larger than the server can send: see _broker_fetch_readable(). */
create or replace function trunkline._broker_read_readable(
  group_name text, handler text default '', lane int default null, from_position bigint default null, max_events int default 100, peek boolean default false)
returns table (in_lane int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz,
               subscriptions bigint[], blocked boolean, unread boolean)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select r.in_lane, r.up_to, r.event_position, r.event_id, r.topic, r.key, case when not u.unread then r.payload end, case when not u.unread then r.metadata end,
         r.at, r.subscriptions, r.blocked, u.unread
    from trunkline.broker_read($1, $2, $3, $4, $5, $6) with ordinality r
   cross join lateral (select trunkline._event_unsendable(r.payload, r.metadata) as unread offset 0) u
   order by r.ordinality;
$$;
select trunkline._access('_broker_read_readable(text, text, int, bigint, int, boolean)', 'reader');
