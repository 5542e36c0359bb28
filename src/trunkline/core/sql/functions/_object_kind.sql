/* Declare a kind of objects: its privileges (every kind has "manage", which includes the others), which of them a new object gives
   to which role where objects.open is true, and the function to call with the name of an object after its grants changed. */
create or replace function trunkline._object_kind(kind text, privileges text[], open_to jsonb, changed text default null)
returns void language sql as $$
  insert into trunkline.object_kind as k (kind, privileges, open_to, changed) values ($1, $2 || 'manage'::text, $3, $4)
  on conflict on constraint object_kind_pkey do update
     set privileges = excluded.privileges, open_to = excluded.open_to, changed = excluded.changed;
$$;
