/* Set a subscription aside with the error and the event that caused it.  It will go on after the last position that was
   matched for it. */
create or replace function trunkline._broker_quarantine(subscription bigint, error text, at_position bigint, matched bigint)
returns void language sql as $$
  update trunkline.broker_subscription s
     set quarantined_at = clock_timestamp(), error = left($2, 2000), error_position = $3, caught_up_to = coalesce(s.caught_up_to, greatest($4, s.from_position - 1))
   where s.subscription = $1;
$$;
