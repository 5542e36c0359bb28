/* Note which role may insert into a table: these columns and no others.  numbers names the sequence that a default of
   the table draws from.  roles_grant() makes it so. */
create or replace function trunkline._access_insert(relation text, columns text[], numbers text, role text)
returns void language sql as $$
  insert into trunkline.access_insert as a (relation, columns, numbers, role) values ($1, $2, $3, $4)
  on conflict on constraint access_insert_pkey do update
     set columns = excluded.columns, numbers = excluded.numbers, role = excluded.role;
$$;
