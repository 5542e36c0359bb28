/* broker_dead_show() for when its answer is larger than the server can send: see _broker_fetch_readable(). */
create or replace function trunkline._broker_dead_show_readable(retry bigint)
returns table (retry bigint, group_name text, handler text, lane int, topic text, key text, payload jsonb, metadata jsonb, event_id bigint,
               event_position bigint, at timestamptz, subscriptions bigint[], attempts int, errors jsonb, unread boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select d.retry, d.group_name, d.handler, d.lane, d.topic, d.key, case when not u.unread then d.payload end, case when not u.unread then d.metadata end,
         d.event_id, d.event_position, d.at, d.subscriptions, d.attempts, d.errors, u.unread
    from trunkline.broker_dead_show($1) d
   cross join lateral (select trunkline._event_unsendable(d.payload, d.metadata) as unread offset 0) u;
$$;
select trunkline._access('_broker_dead_show_readable(bigint)', 'reader');
