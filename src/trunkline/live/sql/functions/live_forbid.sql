/* Take back what live_allow() gave: a role may subscribe to live tables no longer, and its subscriptions end, as do those of its members, unless
   they may subscribe for another reason.  Waits for who is about to subscribe.  Returns whether it was allowed.
   Errors: TL404 no such role, TL409 it may subscribe for another reason, which the message tells. */
create or replace function trunkline.live_forbid(role name)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  ours constant name[] := array['trunkline_reader', 'trunkline_writer', 'trunkline_admin'];
  known pg_roles;
  allowed boolean;
begin
  select r.* into known from pg_roles r where r.rolname = role;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no role %s.', coalesce(quote_ident(role), 'NULL'));
  end if;
  delete from trunkline.live_role l where l.role = live_forbid.role;
  allowed := found;
  if role <> all (ours) then
    execute format('revoke insert (subscription, relation, changes, condition, columns, settings, process) on trunkline.live_subscription from %I', role);
    execute format('revoke execute on function trunkline.live_subscribe(regclass, jsonb, text[], text[], text[], uuid), trunkline._live_number() from %I', role);
  end if;
  if has_any_column_privilege(role, 'trunkline.live_subscription', 'insert') then
    raise exception using errcode = 'TL409', message = format('role %s may subscribe whatever live_allow() said: %s.', quote_ident(role),
      case when known.rolsuper then 'it is a superuser' when role = any (ours) then 'that is what it is for'
           else coalesce('it is a member of ' || (select string_agg(quote_ident(r.rolname), ', ' order by r.rolname) from pg_roles r
             where r.rolname <> live_forbid.role and pg_has_role(live_forbid.role, r.oid, 'usage') and has_any_column_privilege(r.oid, 'trunkline.live_subscription', 'insert')), 'another role granted that') end);
  end if;
  delete from trunkline.live_subscription s where s.role in (
    select d.role from (select distinct i.role from trunkline.live_subscription i) d
     where not exists (select from pg_roles r where r.rolname = d.role and has_any_column_privilege(r.oid, 'trunkline.live_subscription', 'insert')));
  if found then
    perform pg_notify('trunkline', 'live:ended');
  end if;
  return allowed;
end $$;
comment on function trunkline.live_forbid(name) is 'A role may subscribe to live tables no longer.';
select trunkline._access('live_forbid(name)', 'writer');
