/* Grant a role what subscribing to live tables needs. */
create or replace function trunkline._live_grant(role name)
returns void language plpgsql as $$
begin
  execute format('grant usage on schema trunkline to %I', role);
  execute format('grant insert (subscription, relation, changes, condition, columns, settings, process) on trunkline.live_subscription to %I', role);
  execute format('grant execute on function trunkline.live_subscribe(regclass, jsonb, text[], text[], text[], uuid), trunkline._live_number() to %I', role);
end $$;
