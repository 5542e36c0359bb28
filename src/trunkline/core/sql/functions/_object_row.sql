/* The row of an object, or TL404. */
create or replace function trunkline._object_row(object text)
returns trunkline.object language plpgsql stable as $$
declare
  present trunkline.object;
begin
  select o.* into present from trunkline.object o where o.object = _object_row.object;
  if not found then
    perform trunkline._raise('TL404', format('there is no object %s.', coalesce('"' || left(object, 400) || '"', 'NULL')),
      'An object is a kind and a name, for example topic:orders. List them with object_list().', jsonb_build_object('object', object));
  end if;
  return present;
end $$;
