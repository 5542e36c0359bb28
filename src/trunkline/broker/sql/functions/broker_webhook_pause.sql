/* Send nothing to a webhook until broker_webhook_resume(); what comes meanwhile waits.
   Returns whether it was not paused before; then the reason is noted.  TL404. */
create or replace function trunkline.broker_webhook_pause(webhook bigint, reason text default null)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_webhook := trunkline._webhook_for(webhook);
begin
  if present.paused_at is not null then
    return false;
  end if;
  update trunkline.broker_webhook w set paused_at = clock_timestamp(), paused_because = left(reason, 1000) where w.webhook = present.webhook;
  perform pg_notify('trunkline', 'broker:webhooks');
  return true;
end $$;
comment on function trunkline.broker_webhook_pause(bigint, text) is 'Send nothing to a webhook until it is resumed.';
select trunkline._access('broker_webhook_pause(bigint, text)', 'writer');
