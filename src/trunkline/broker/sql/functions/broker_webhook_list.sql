/* Webhooks, of one group or all: where they go, what they want, whether they are paused and why, how much waits for
   another try and is dead.  Of secrets and headers it says only how many sign and what they are called.
   Of the url of a webhook that a role does not manage it says the host.  TL404 for a
   group that is not there. */
create or replace function trunkline.broker_webhook_list(group_name text default null)
returns table (webhook bigint, group_name text, url text, condition text, params jsonb, format text, signatures bigint, header_names text[],
               retry interval[], timeout interval, batch int, concurrency int, ordering text, waiting bigint, dead bigint,
               paused_at timestamptz, paused_because text, owner name, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select w.webhook, g.group_name, case when trunkline._may('webhook:' || w.webhook, '{manage}', trunkline._caller()) then w.url else substring(w.url from '^[A-Za-z]+://[^/?#]*') end, s.given ->> 'condition', s.given -> 'params', w.format,
         (select count(*) from trunkline.broker_webhook_secret k
           where k.webhook = w.webhook and (k.valid_until is null or k.valid_until > clock_timestamp())),
         array(select jsonb_object_keys(w.headers)), w.retry, w.timeout, w.batch, w.concurrency, h.ordering,
         (select count(*) from trunkline.broker_retry r where r.group_id = h.group_id and r.handler = h.handler and r.status <> 'dead'),
         (select count(*) from trunkline.broker_retry r where r.group_id = h.group_id and r.handler = h.handler and r.status = 'dead'),
         w.paused_at, w.paused_because, (select o.owner from trunkline.object o where o.object = 'webhook:' || w.webhook), w.created_at
    from (select case when $1 is not null then (trunkline._broker_group_row($1)).group_id end as group_id) wanted
    join trunkline.broker_webhook w on wanted.group_id is null or w.group_id = wanted.group_id
    join trunkline.broker_group g on g.group_id = w.group_id
    join trunkline.broker_handler h on h.group_id = w.group_id and h.handler = trunkline._webhook_handler(w.webhook)
    left join trunkline.broker_subscription s on s.subscription = h.subscriptions[cardinality(h.subscriptions)]
   order by w.webhook;
$$;
comment on function trunkline.broker_webhook_list(text) is 'Webhooks with their state; without secrets.';
select trunkline._access('broker_webhook_list(text)', 'reader');
