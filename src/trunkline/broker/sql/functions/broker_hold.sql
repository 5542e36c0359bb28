/* Keep a subscription from expiring as long as the lease of a process lasts.  Writes once.
   Errors: TL404, TL423 without a living lease. */
create or replace function trunkline.broker_hold(subscription bigint, process uuid)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not trunkline._lease_living(process) then
    raise exception using errcode = 'TL423', message = format('process %s has no living lease.', coalesce(process::text, 'NULL')),
      hint = 'Call lease_renew() first, and again every third of lease.ttl.';
  end if;
  perform trunkline._check_may('group:' || g.group_name, 'consume')
     from trunkline.broker_subscription s join trunkline.broker_group g using (group_id) where s.subscription = broker_hold.subscription;
  perform 1 from trunkline.broker_subscription s where s.subscription = broker_hold.subscription for key share;
  if not found then
    perform trunkline._subscription_missing(subscription);
  end if;
  update trunkline.broker_subscription s set idle_since = null where s.subscription = broker_hold.subscription and s.idle_since is not null;
  insert into trunkline.broker_holder (subscription, process) values (broker_hold.subscription, broker_hold.process)
  on conflict on constraint broker_holder_pkey do nothing;
end $$;
comment on function trunkline.broker_hold(bigint, uuid) is 'Keep a subscription from expiring as long as the lease of a process lasts.';
select trunkline._access('broker_hold(bigint, uuid)', 'reader');
