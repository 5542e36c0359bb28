/* List an object that a role has made, with the grants that new objects of its kind get.  What has a reserved name has no owner: it is for admins. */
create or replace function trunkline._object_put(kind text, name text, owner name)
returns void language plpgsql as $$
declare
  id text := kind || ':' || name;
begin
  insert into trunkline.object (object, kind, name, owner) values (id, _object_put.kind, _object_put.name, case when not starts_with(_object_put.name, 'trunkline.') then _object_put.owner end)
  on conflict on constraint object_pkey do nothing;
  if found and not starts_with(_object_put.name, 'trunkline.') and trunkline._setting('objects.open')::boolean then
    insert into trunkline.object_grant (object, privilege, role, granted_by)
    select id, o.key, o.value, _object_put.owner from trunkline.object_kind k cross join jsonb_each_text(k.open_to) o where k.kind = _object_put.kind;
  end if;
end $$;
