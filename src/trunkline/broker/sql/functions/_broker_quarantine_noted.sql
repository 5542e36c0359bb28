/* Quarantine the subscriptions, or one of them, that were noted while somebody held their rows, if nobody does by now; forget
   those that are gone.  Waits for nobody. */
create or replace function trunkline._broker_quarantine_noted(subscription bigint default null)
returns void language plpgsql as $$
declare
  noted trunkline.broker_subscription_aside;
begin
  for noted in select a.* from trunkline.broker_subscription_aside a where _broker_quarantine_noted.subscription is null or a.subscription = _broker_quarantine_noted.subscription loop
    perform 1 from trunkline.broker_subscription s where s.subscription = noted.subscription for no key update skip locked;
    if found then
      update trunkline.broker_subscription s
         set quarantined_at = noted.at, error = noted.error, error_position = noted.error_position, caught_up_to = coalesce(s.caught_up_to, noted.matched)
       where s.subscription = noted.subscription;
    elsif exists (select from trunkline.broker_subscription s where s.subscription = noted.subscription) then
      continue;
    end if;
    delete from trunkline.broker_subscription_aside a where a.subscription = noted.subscription;
  end loop;
end $$;
