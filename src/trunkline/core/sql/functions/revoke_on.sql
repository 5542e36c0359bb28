/* Take a privilege on an object from a role.  Returns whether the role had it as its own grant: what it has as the owner, as an admin or from another
   role stays.  Errors: TL403 without "manage", TL404 no such object, TL422 no privilege of this kind. */
create or replace function trunkline.revoke_on(object text, privilege text, role name)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.object := trunkline._object_row(object);
begin
  perform trunkline._check_may(object, 'manage');
  perform trunkline._object_privilege_check(present.kind, privilege);
  delete from trunkline.object_grant g where g.object = revoke_on.object and g.privilege = revoke_on.privilege and g.role = revoke_on.role;
  if not found then
    return false;
  end if;
  perform trunkline._object_changed(present.kind, present.name);
  return true;
end $$;
comment on function trunkline.revoke_on(text, text, name) is 'Take a privilege on an object from a role; false if the role had no grant of its own.';
select trunkline._access('revoke_on(text, text, name)', 'reader');
