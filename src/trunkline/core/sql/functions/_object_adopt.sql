/* List an object that is older than owners: no role owns it, and trunkline_writer may do what all writers could do before. */
create or replace function trunkline._object_adopt(kind text, name text)
returns void language sql as $$
  insert into trunkline.object (object, kind, name) values (kind || ':' || name, kind, name) on conflict on constraint object_pkey do nothing;
  insert into trunkline.object_grant (object, privilege, role, granted_by)
  select $1 || ':' || $2, o.key, o.value, session_user
    from trunkline.object_kind k cross join jsonb_each_text(k.open_to || '{"manage": "trunkline_writer"}') o where k.kind = $1
  on conflict on constraint object_grant_pkey do nothing;
$$;
