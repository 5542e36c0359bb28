/* The lowest position that somebody still needs.  The matcher and the forwarders hold what they have not seen as long as
   it takes; groups that have not read their deliveries hold events as long as those stay, subscriptions that catch up for broker.hold,
   unless that takes more than broker.hold_bytes;
   whatever is younger than broker.retention stays for those who may ask for it. */
create or replace function trunkline._event_keep_from()
returns bigint language plpgsql stable as $$
declare
  beyond bigint := trunkline.broker_head() + 1;
  now_ timestamptz := clock_timestamp();
  caught_up bigint := least((select min(s.caught_up_to) + 1 from trunkline.broker_subscription s),
    (select min(a.matched) + 1 from trunkline.broker_subscription_aside a));
  others bigint;
begin
  if caught_up is not null then
    caught_up := greatest(caught_up, coalesce(trunkline._tick_first_since('event', now_ - trunkline._setting('broker.hold')::interval), beyond));
  end if;
  others := least(trunkline._delivery_keep_position(),
    coalesce(trunkline._broker_matched(), 0) + 1,
    (select min((trunkline._cursor_latest(k.cursor_id)).up_to) + 1 from trunkline.cursor_key k where k.resource like 'broker:forward:%'),
    coalesce(trunkline._tick_first_since('event', now_ - trunkline._setting('broker.retention')::interval), beyond));
  return case when caught_up < others and not trunkline._broker_hold_full(caught_up) then caught_up else others end;
end $$;
