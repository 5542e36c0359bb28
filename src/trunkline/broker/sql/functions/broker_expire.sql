/* A duty of maintain(): end subscriptions that nobody has held for longer than their expiry, groups that go with their last
   subscription, groups that nobody has read for broker.abandoned_after, and forget conditions that nobody uses.
   A process holds what it said with broker_hold() as long as its lease lasts.  Writes nothing when nothing changed. */
create or replace function trunkline.broker_expire()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  many int := 0;
  group_id int;
begin
  delete from trunkline.broker_holder h where not exists (select from trunkline.lease l where l.process = h.process);
  update trunkline.broker_subscription s set idle_since = null  -- a process whose lease had ended has renewed it
   where s.subscription in (
     select i.subscription from trunkline.broker_subscription i
      where i.expiry is not null and i.idle_since is not null and trunkline._subscription_held(i.subscription)
        for no key update skip locked limit 1000);
  update trunkline.broker_subscription s set idle_since = h.since
    from (select i.subscription, least(clock_timestamp(), coalesce((select max(l.expires) from trunkline.broker_holder o join trunkline.lease l using (process)
                   where o.subscription = i.subscription), clock_timestamp())) as since
            from trunkline.broker_subscription i
           where i.expiry is not null and i.idle_since is null and not trunkline._subscription_held(i.subscription)
             for no key update skip locked limit 1000) h
   where s.subscription = h.subscription;
  delete from trunkline.broker_subscription s where s.subscription in (
    select i.subscription from trunkline.broker_subscription i
     where i.expiry is not null and i.idle_since < clock_timestamp() - i.expiry and not trunkline._subscription_held(i.subscription)
       for update skip locked limit 1000);
  get diagnostics many = row_count;
  for group_id in select g.group_id from trunkline._groups_over() g loop
    perform trunkline._broker_group_end(group_id);
    many := many + 1;
  end loop;
  delete from trunkline.broker_condition c where c.condition_id in (
    select i.condition_id from trunkline.broker_condition i
     where not exists (select from trunkline.broker_subscription s where s.condition_id = i.condition_id)
       for update skip locked limit 1000);
  return many >= 1000;
end $$;
comment on function trunkline.broker_expire() is 'End subscriptions and groups that nobody holds any longer; a duty of maintain().';
select trunkline._access('broker_expire()', 'admin');
insert into trunkline.duty (duty, rank) values ('broker_expire', 75) on conflict do nothing;
