/* The role that subscribed first manages its subscription. */
alter table trunkline.broker_subscription add column owner name;
comment on column trunkline.broker_subscription.owner is 'The role that subscribed first; NULL: it is older than owners.';

/* Their answers grew: the functions that their files make must not stand beside the old ones. */
drop function if exists trunkline.broker_subscriptions(text);
drop function if exists trunkline.broker_groups();
drop function if exists trunkline.broker_webhook_list(text);
