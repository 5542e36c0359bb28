/* The subscription that is furthest behind and not in quarantine. */
create or replace function trunkline._match_late()
returns trunkline.broker_subscription language plpgsql stable as $$
declare
  late trunkline.broker_subscription;
begin
  select s.* into late from trunkline.broker_subscription s
   where s.caught_up_to is not null and s.quarantined_at is null order by s.caught_up_to, s.subscription limit 1;
  return late;
end $$;
