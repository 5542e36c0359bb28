/* TL404 for a subscription that is not there. */
create or replace function trunkline._subscription_missing(subscription bigint)
returns void language plpgsql as $$
begin
  perform trunkline._raise('TL404', format('there is no subscription %s.', coalesce(subscription::text, 'NULL')),
    'List them with broker_subscriptions().', jsonb_build_object('subscription', subscription));
end $$;
