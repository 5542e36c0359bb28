/* The row of a webhook, locked; TL404. */
create or replace function trunkline._webhook_row(webhook bigint)
returns trunkline.broker_webhook language plpgsql as $$
declare
  present trunkline.broker_webhook;
begin
  perform trunkline._lock_briefly();
  select w.* into present from trunkline.broker_webhook w where w.webhook = _webhook_row.webhook for no key update;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no webhook %s.', coalesce(webhook::text, 'NULL')),
      hint = 'List them with broker_webhook_list().', detail = jsonb_build_object('webhook', webhook)::text;
  end if;
  return present;
end $$;
