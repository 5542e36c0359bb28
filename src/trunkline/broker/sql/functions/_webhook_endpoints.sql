/* What the sender needs to know of the webhooks that are not paused: with secrets, the present one first. */
create or replace function trunkline._webhook_endpoints()
returns table (webhook bigint, group_id int, group_name text, url text, format text, headers jsonb, retry interval[], timeout interval,
               batch int, concurrency int, ordering text, identity uuid, secrets jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select w.webhook, w.group_id, g.group_name, w.url, w.format, w.headers, w.retry, w.timeout, w.batch, w.concurrency, h.ordering, w.identity,
         coalesce((select jsonb_agg(jsonb_build_array(k.secret, extract(epoch from k.valid_until)) order by k.valid_until desc nulls first)
                     from trunkline.broker_webhook_secret k where k.webhook = w.webhook), '[]')
    from trunkline.broker_webhook w join trunkline.broker_group g using (group_id)
    join trunkline.broker_handler h on h.group_id = w.group_id and h.handler = trunkline._webhook_handler(w.webhook)
   where w.paused_at is null order by w.webhook;
$$;
select trunkline._access('_webhook_endpoints()', 'admin');
