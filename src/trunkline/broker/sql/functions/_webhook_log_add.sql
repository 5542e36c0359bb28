/* Note attempts: an array of objects with the columns of webhook_log. */
create or replace function trunkline._webhook_log_add(entries jsonb)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into trunkline.webhook_log (slot, webhook, at, message, event_ids, attempt, status, milliseconds, error, answer)
  select trunkline._ring_current('webhook_log'), e.webhook, e.at, e.message, e.event_ids, e.attempt, e.status, e.milliseconds, e.error, e.answer
    from jsonb_to_recordset(entries) e (webhook bigint, at timestamptz, message text, event_ids bigint[], attempt int, status int,
                                        milliseconds int, error text, answer text);
$$;
select trunkline._access('_webhook_log_add(jsonb)', 'admin');
