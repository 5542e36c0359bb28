/* Set a subscription aside with the error and the event that caused it.  It will go on after the last position that was
   matched for it.  When somebody holds its row that is only noted, for _broker_quarantine_noted(): nobody waits. */
create or replace function trunkline._broker_quarantine(subscription bigint, error text, at_position bigint, matched bigint)
returns void language plpgsql as $$
begin
  perform 1 from trunkline.broker_subscription s where s.subscription = _broker_quarantine.subscription for no key update skip locked;
  if found then
    update trunkline.broker_subscription s
       set quarantined_at = clock_timestamp(), error = left(_broker_quarantine.error, 2000), error_position = at_position,
           caught_up_to = coalesce(s.caught_up_to, greatest(_broker_quarantine.matched, s.from_position - 1))
     where s.subscription = _broker_quarantine.subscription;
  else
    insert into trunkline.broker_subscription_aside (subscription, error, error_position, matched)
    select s.subscription, left(_broker_quarantine.error, 2000), at_position, greatest(_broker_quarantine.matched, s.from_position - 1)
      from trunkline.broker_subscription s where s.subscription = _broker_quarantine.subscription
    on conflict on constraint broker_subscription_aside_pkey do nothing;
  end if;
end $$;
