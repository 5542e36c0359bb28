/* Give an object the owner and the grants of another. */
create or replace function trunkline._object_like(object text, model text)
returns void language plpgsql as $$
declare
  present trunkline.object := trunkline._object_row(object);
begin
  update trunkline.object o set owner = m.owner from trunkline.object m where o.object = _object_like.object and m.object = model;
  delete from trunkline.object_grant g where g.object = _object_like.object;
  insert into trunkline.object_grant (object, privilege, role, granted_by)
  select _object_like.object, g.privilege, g.role, g.granted_by from trunkline.object_grant g where g.object = model;
  perform trunkline._object_changed(present.kind, present.name);
end $$;
