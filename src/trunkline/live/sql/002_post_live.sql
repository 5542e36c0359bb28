/* What a subscription says is checked, whoever inserts it and however. */
create trigger live_subscription_prepare before insert on trunkline.live_subscription
  for each row execute function trunkline._live_subscription_prepare();
create trigger live_subscription_keep before update on trunkline.live_subscription
  for each row execute function trunkline._live_subscription_keep();
