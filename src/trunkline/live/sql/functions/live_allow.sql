/* Let a role subscribe to live tables.  What it is told of is what it may select, and what policies let it see.  Errors: TL404. */
create or replace function trunkline.live_allow(role name)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if role is null or not exists (select from pg_roles r where r.rolname = role) then
    raise exception using errcode = 'TL404', message = format('there is no role %s.', coalesce(quote_ident(role), 'NULL'));
  end if;
  insert into trunkline.live_role (role) values (live_allow.role) on conflict do nothing;
  perform trunkline._live_grant(role);
end $$;
comment on function trunkline.live_allow(name) is 'Let a role subscribe to live tables.';
select trunkline._access('live_allow(name)', 'writer');
