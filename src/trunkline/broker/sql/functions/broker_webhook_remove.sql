/* Remove a webhook with its secrets, positions, retries and dead letters, and its subscription if no other handler has
   it.  The log stays as long as logs stay.  Returns whether it was there. */
create or replace function trunkline.broker_webhook_remove(webhook bigint)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_webhook;
begin
  if exists (select from trunkline.broker_webhook w where w.webhook = broker_webhook_remove.webhook) then
    perform trunkline._check_may('webhook:' || webhook, 'manage');
  end if;
  delete from trunkline.broker_webhook w where w.webhook = broker_webhook_remove.webhook returning w.* into present;
  if not found then
    return false;
  end if;
  perform trunkline._broker_handler_end(present.group_id, trunkline._webhook_handler(present.webhook));
  perform pg_notify('trunkline', 'broker:webhooks');
  return true;
end $$;
comment on function trunkline.broker_webhook_remove(bigint) is 'Remove a webhook with all that belongs to it.';
select trunkline._access('broker_webhook_remove(bigint)', 'writer');
