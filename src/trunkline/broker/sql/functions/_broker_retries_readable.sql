/* broker_retries() for when its answer is larger than the server can send: see _broker_fetch_readable(). */
create or replace function trunkline._broker_retries_readable(group_name text, handler text, lane int, epoch bigint, max_batches int default 1)
returns table (batch bigint, attempts int, errors jsonb, up_to bigint, event_position bigint, event_id bigint, topic text, key text,
               payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], unread boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select r.batch, r.attempts, r.errors, r.up_to, r.event_position, r.event_id, r.topic, r.key, case when not u.unread then r.payload end,
         case when not u.unread then r.metadata end, r.at, r.subscriptions, u.unread
    from trunkline.broker_retries($1, $2, $3, $4, $5) with ordinality r
   cross join lateral (select trunkline._event_unsendable(r.payload, r.metadata) as unread offset 0) u
   order by r.ordinality;
$$;
select trunkline._access('_broker_retries_readable(text, text, int, bigint, int)', 'reader');
