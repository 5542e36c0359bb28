/* How many subscriptions of each group are in quarantine; groups without any are left out. */
create or replace function trunkline.broker_quarantined()
returns table (group_name text, subscriptions bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select g.group_name, count(*) from trunkline.broker_subscription s join trunkline.broker_group g using (group_id)
   where s.quarantined_at is not null or exists (select from trunkline.broker_subscription_aside a where a.subscription = s.subscription)
   group by 1 order by 1;
$$;
comment on function trunkline.broker_quarantined() is 'How many subscriptions of each group are in quarantine.';
select trunkline._access('broker_quarantined()', 'reader');
