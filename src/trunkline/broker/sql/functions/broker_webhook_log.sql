/* What was sent to a webhook, or to all, and what they answered; the newest first.  With before, what came before that
   entry; max_entries NULL gives all.  The log is kept for broker.webhook_log, also of webhooks that were removed.  TL404. */
create or replace function trunkline.broker_webhook_log(webhook bigint default null, max_entries int default 100, before bigint default null)
returns table (entry bigint, webhook bigint, at timestamptz, message text, event_ids bigint[], attempt int, status int, milliseconds int, error text, answer text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._webhook_log_check($1);
  select l.entry, l.webhook, l.at, l.message, l.event_ids, l.attempt, l.status, l.milliseconds, l.error, l.answer
    from trunkline.webhook_log l where ($1 is null or l.webhook = $1) and ($3 is null or l.entry < $3)
   order by l.entry desc limit greatest($2, 0);
$$;
comment on function trunkline.broker_webhook_log(bigint, int, bigint) is 'What was sent to webhooks, and what they answered.';
select trunkline._access('broker_webhook_log(bigint, int, bigint)', 'reader');
