/* The row of an object, or TL404. */
create or replace function trunkline._object_row(object text)
returns trunkline.object language plpgsql stable as $$
declare
  present trunkline.object;
begin
  select o.* into present from trunkline.object o where o.object = _object_row.object;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no object %s.', coalesce('"' || left(object, 400) || '"', 'NULL')),
      hint = 'An object is a kind and a name, for example topic:orders. List them with object_list().', detail = jsonb_build_object('object', object)::text;
  end if;
  return present;
end $$;
