/* End a subscription; returns whether it was there.  What was already found for it is still delivered.
   Errors: TL403 neither its owner nor a manager of its group. */
create or replace function trunkline.broker_unsubscribe(subscription bigint)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from trunkline.broker_subscription s where s.subscription = broker_unsubscribe.subscription) then
    return false;
  end if;
  perform trunkline._subscription_may(subscription);
  delete from trunkline.broker_subscription s where s.subscription = broker_unsubscribe.subscription;
  return found;
end $$;
comment on function trunkline.broker_unsubscribe(bigint) is 'End a subscription; what was already found for it is still delivered.';
select trunkline._access('broker_unsubscribe(bigint)', 'writer');
