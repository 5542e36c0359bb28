/* TL404 for a webhook that is not there and of which the log knows nothing. */
create or replace function trunkline._webhook_log_check(webhook bigint)
returns void language plpgsql stable as $$
begin
  if webhook is not null and not exists (select from trunkline.broker_webhook w where w.webhook = _webhook_log_check.webhook)
     and not exists (select from trunkline.webhook_log l where l.webhook = _webhook_log_check.webhook) then
    raise exception using errcode = 'TL404', message = format('there is no webhook %s.', webhook),
      hint = 'List them with broker_webhook_list().', detail = jsonb_build_object('webhook', webhook)::text;
  end if;
end $$;
