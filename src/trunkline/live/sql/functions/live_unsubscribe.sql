/* End a live subscription; returns whether it was there.  Whoever serves it is told, unless it says with process that it does. */
create or replace function trunkline.live_unsubscribe(subscription bigint, process uuid default null)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  server uuid;
begin
  if exists (select from trunkline.live_subscription s join pg_roles r on r.rolname = s.role
              where s.subscription = live_unsubscribe.subscription and not pg_has_role(trunkline._caller(), r.oid, 'member')) and not trunkline._administers() then
    perform trunkline._raise('TL403', format('live subscription %s belongs to another role.', subscription), 'That role, its members and admins may end it.');
  end if;
  delete from trunkline.live_subscription s where s.subscription = live_unsubscribe.subscription returning s.process into server;
  if not found then
    return false;
  elsif server is distinct from live_unsubscribe.process then
    perform pg_notify('trunkline', 'live:ended');
  end if;
  return true;
end $$;
comment on function trunkline.live_unsubscribe(bigint, uuid) is 'End a live subscription.';
select trunkline._access('live_unsubscribe(bigint, uuid)', 'reader');
