/* Take a subscription out of quarantine.  It is matched from where it stopped: with skip, the event that failed is left
   out; without, it is tried again.  from_position: from there on instead, which is no earlier; so it goes on when events have left that
   it has not seen.  Returns the position from which on it is matched.
   Errors: TL403 neither its owner nor a manager of its group, TL404, TL409 when it is not in quarantine, TL410 when events have left meanwhile, with the first from which on all are there,
   TL422. */
create or replace function trunkline.broker_resume(subscription bigint, skip boolean default true, from_position bigint default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_subscription;
  begins bigint;
begin
  perform trunkline._subscription_may(subscription);
  perform trunkline._lock_briefly();
  select s.* into present from trunkline.broker_subscription s where s.subscription = broker_resume.subscription for no key update;
  if not found then
    perform trunkline._subscription_missing(subscription);
  end if;
  perform trunkline._broker_quarantine_noted(subscription);
  select s.* into present from trunkline.broker_subscription s where s.subscription = broker_resume.subscription;
  if present.quarantined_at is null then
    raise exception using errcode = 'TL409', message = format('subscription %s is not in quarantine.', subscription), hint = 'See broker_subscriptions().';
  elsif from_position <= present.caught_up_to then
    raise exception using errcode = 'TL422', message = format('subscription %s was matched up to position %s, got %s to begin with.', subscription, present.caught_up_to, from_position);
  end if;
  begins := trunkline._subscription_begins(coalesce(from_position, present.caught_up_to + 1), null);
  update trunkline.broker_subscription s
     set quarantined_at = null, error = null, error_position = case when skip then s.error_position end, caught_up_to = begins - 1
   where s.subscription = present.subscription;
  return begins;
end $$;
comment on function trunkline.broker_resume(bigint, boolean, bigint) is 'Take a subscription out of quarantine; it is matched from where it stopped.';
select trunkline._access('broker_resume(bigint, boolean, bigint)', 'writer');
