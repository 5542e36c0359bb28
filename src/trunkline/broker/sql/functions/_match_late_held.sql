/* The subscription that is furthest behind and not in quarantine, held until the transaction ends; those that somebody else
   holds are passed over, so that the others need not wait. */
create or replace function trunkline._match_late_held()
returns trunkline.broker_subscription language plpgsql as $$
declare
  late trunkline.broker_subscription;
begin
  select s.* into late from trunkline.broker_subscription s
   where s.caught_up_to is not null and s.quarantined_at is null order by s.caught_up_to, s.subscription limit 1 for no key update skip locked;
  return late;
end $$;
