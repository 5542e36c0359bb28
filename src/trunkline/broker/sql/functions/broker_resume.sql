/* Take a subscription out of quarantine.  It is matched from where it stopped: with skip, the event that failed is left
   out; without, it is tried again.  Returns the position from which on it is matched, which is a later one than where it
   stopped if events have left meanwhile.  Errors: TL404, TL409 when it is not in quarantine. */
create or replace function trunkline.broker_resume(subscription bigint, skip boolean default true)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_subscription;
begin
  select s.* into present from trunkline.broker_subscription s where s.subscription = broker_resume.subscription for no key update;
  if not found then
    perform trunkline._subscription_missing(subscription);
  end if;
  perform trunkline._broker_quarantine_noted(subscription);
  select s.* into present from trunkline.broker_subscription s where s.subscription = broker_resume.subscription;
  if present.quarantined_at is null then
    perform trunkline._raise('TL409', format('subscription %s is not in quarantine.', subscription), 'See broker_subscriptions().');
  end if;
  update trunkline.broker_subscription s
     set quarantined_at = null, error = null, error_position = case when skip then s.error_position end,
         caught_up_to = greatest(s.caught_up_to, (select min(t.first_position) - 1 from trunkline.tick t where t.sequence = 'event'))
   where s.subscription = present.subscription returning s.* into present;
  return present.caught_up_to + 1;
end $$;
comment on function trunkline.broker_resume(bigint, boolean) is 'Take a subscription out of quarantine; it is matched from where it stopped.';
select trunkline._access('broker_resume(bigint, boolean)', 'writer');
