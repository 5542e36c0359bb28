/* Refuse to end or change a subscription unless the role that the session acts as made it, inherits from the role that did, or manages its group.
   Errors: TL403, TL404. */
create or replace function trunkline._subscription_may(subscription bigint)
returns void language plpgsql stable as $$
declare
  present record;
begin
  select s.owner, g.group_name into present
    from trunkline.broker_subscription s join trunkline.broker_group g using (group_id) where s.subscription = _subscription_may.subscription;
  if not found then
    perform trunkline._subscription_missing(subscription);
  elsif not exists (select from pg_roles r where r.rolname = present.owner and pg_has_role(trunkline._caller(), r.oid, 'usage')) then
    perform trunkline._check_may('group:' || present.group_name, 'manage');
  end if;
end $$;
