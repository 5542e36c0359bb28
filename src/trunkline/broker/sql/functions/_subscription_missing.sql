/* TL404 for a subscription that is not there. */
create or replace function trunkline._subscription_missing(subscription bigint)
returns void language plpgsql as $$
begin
  raise exception using errcode = 'TL404', message = format('there is no subscription %s.', coalesce(subscription::text, 'NULL')),
    hint = 'List them with broker_subscriptions().', detail = jsonb_build_object('subscription', subscription)::text;
end $$;
