/* Make another role the owner of an object.  The owner and roles with "manage" may do so, and must be members of the new owner, as with ALTER TABLE
   OWNER; an admin may name any role.  Errors: TL403, TL404 no such object or role. */
create or replace function trunkline.object_transfer(object text, owner name)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.object := trunkline._object_row(object);
begin
  perform trunkline._check_may(object, 'manage');
  perform trunkline._role_check(owner);
  if not trunkline._administers() and not pg_has_role(trunkline._caller(), owner, 'member') then
    raise exception using errcode = 'TL403', message = format('role %s is not a member of %s.', quote_ident(trunkline._caller()), quote_ident(owner)),
      hint = 'Who gives an object away must be a member of the new owner, or an admin.';
  end if;
  update trunkline.object o set owner = object_transfer.owner where o.object = object_transfer.object;
  perform trunkline._object_changed(present.kind, present.name);
end $$;
comment on function trunkline.object_transfer(text, name) is 'Make another role the owner of an object.';
select trunkline._access('object_transfer(text, name)', 'reader');
