/* Send to a webhook again, from where it was paused.  Returns whether it was paused.  TL404. */
create or replace function trunkline.broker_webhook_resume(webhook bigint)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_webhook := trunkline._webhook_for(webhook);
begin
  if present.paused_at is null then
    return false;
  end if;
  update trunkline.broker_webhook w set paused_at = null, paused_because = null where w.webhook = present.webhook;
  perform pg_notify('trunkline', 'broker:webhooks');
  return true;
end $$;
comment on function trunkline.broker_webhook_resume(bigint) is 'Send to a webhook again, from where it was paused.';
select trunkline._access('broker_webhook_resume(bigint)', 'writer');
