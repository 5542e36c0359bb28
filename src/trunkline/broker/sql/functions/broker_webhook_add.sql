/* Post the events of a group for which a condition holds to a URL, from now on; returns the number of the webhook.
   It is the handler "webhook:<number>" of the group, with positions, retries and dead letters of its own: several
   webhooks of a group each get every event.
   condition, params, ordering: as in broker_subscribe().  secret: base64 of 24 to 64 bytes, to sign with; NULL sends
   unsigned.  headers go along and win over ours.  retry: waits before each further try, then it is a dead letter.
   timeout: for the whole answer.  batch: events in one request at most.  concurrency: requests at once.
   format: "standard" or "cloudevents".
   The host of the URL must be among broker.webhook_hosts, where that is set; an address, however it is spelled, must be public, or within
   broker.webhook_networks, unless broker.webhook_private is on.  Errors: TL409, TL413, TL422. */
create or replace function trunkline.broker_webhook_add(group_name text, url text, condition text default null, params jsonb default '{}',
  secret text default null, headers jsonb default '{}',
  retry interval[] default '{5 seconds,1 minute,5 minutes,30 minutes,2 hours,6 hours,12 hours}',
  timeout interval default '15 seconds', batch int default 1, format text default 'standard', concurrency int default 4, ordering text default 'strict')
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  fault text := coalesce(trunkline._webhook_fault(url, headers, retry, timeout, batch, concurrency, format), trunkline._webhook_host_fault(url));
  number bigint := nextval(pg_get_serial_sequence('trunkline.broker_webhook', 'webhook'));
begin
  if fault is not null then
    raise exception using errcode = 'TL422', message = fault;
  end if;
  perform trunkline.broker_subscribe(group_name, condition, params, handler => trunkline._webhook_handler(number), ordering => coalesce(ordering, 'strict'));
  insert into trunkline.broker_webhook (webhook, group_id, url, format, headers, retry, timeout, batch, concurrency)
  overriding system value
  select number, g.group_id, broker_webhook_add.url, broker_webhook_add.format, broker_webhook_add.headers, broker_webhook_add.retry,
         broker_webhook_add.timeout, broker_webhook_add.batch, broker_webhook_add.concurrency
    from trunkline.broker_group g where g.group_name = broker_webhook_add.group_name;
  if secret is not null then
    perform trunkline._webhook_secret_put(number, secret, '0');
  end if;
  perform pg_notify('trunkline', 'broker:webhooks');
  return number;
end $$;
comment on function trunkline.broker_webhook_add(text, text, text, jsonb, text, jsonb, interval[], interval, int, text, int, text) is
  'Post the events of a group for which a condition holds to a URL.';
select trunkline._access('broker_webhook_add(text, text, text, jsonb, text, jsonb, interval[], interval, int, text, int, text)', 'writer');
