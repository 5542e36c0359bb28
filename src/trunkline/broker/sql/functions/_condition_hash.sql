/* The hash of what a subscription wants to be equal; NULL when its condition has no such part. */
create or replace function trunkline._condition_hash(condition trunkline.broker_condition, subscription bigint, group_name text, params jsonb)
returns bigint language plpgsql as $$
begin
  return (select r.subscription from trunkline._match_run(condition.kind, format(
    'select 0, hash_record_extended(%s, 0) from (select %L::bigint as subscription, %L::text as group_name, %L::jsonb as params) s',
    condition.subscription_key, subscription, group_name, params)) r where condition.subscription_key is not null);
end $$;
