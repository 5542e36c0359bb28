/* Give a role a privilege on an object such as "topic:orders".  Who has "manage" on it may do so: its owner, an admin, and roles that were granted it.
   "manage" includes every other privilege.  Harmless when the role has it.
   Errors: TL403, TL404 no such object or role, TL422 no privilege of this kind. */
create or replace function trunkline.grant_on(object text, privilege text, role name)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.object := trunkline._object_row(object);
begin
  perform trunkline._check_may(object, 'manage');
  perform trunkline._object_privilege_check(present.kind, privilege);
  perform trunkline._role_check(role);
  insert into trunkline.object_grant (object, privilege, role, granted_by)
  values (grant_on.object, grant_on.privilege, grant_on.role, trunkline._caller())
  on conflict on constraint object_grant_pkey do nothing;
  if found then
    perform trunkline._object_changed(present.kind, present.name);
  end if;
end $$;
comment on function trunkline.grant_on(text, text, name) is 'Give a role a privilege on an object, for example "append" on "topic:orders".';
select trunkline._access('grant_on(text, text, name)', 'reader');
