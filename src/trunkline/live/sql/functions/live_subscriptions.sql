/* Live subscriptions, all or those of one process: who is told of which changes. */
create or replace function trunkline.live_subscriptions(process uuid default null)
returns table (subscription bigint, relation text, changes text[], condition jsonb, columns text[], role name, process uuid, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select s.subscription, s.relation::text, s.changes, s.condition, s.columns, s.role, s.process, s.created_at
    from trunkline.live_subscription s where $1 is null or s.process = $1 order by s.subscription;
$$;
comment on function trunkline.live_subscriptions(uuid) is 'Live subscriptions: who is told of which changes.';
select trunkline._access('live_subscriptions(uuid)', 'reader');
