/* Is there a living process that holds a subscription? */
create or replace function trunkline._subscription_held(subscription bigint)
returns boolean language sql stable as $$
  select exists (select from trunkline.broker_holder h join trunkline.lease l using (process) where h.subscription = $1 and l.expires > clock_timestamp());
$$;
