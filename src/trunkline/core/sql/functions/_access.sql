/* Note which role may call a function; roles_grant() makes it so. */
create or replace function trunkline._access(signature text, role text)
returns void language sql as $$
  insert into trunkline.access as a (signature, role) values ($1, $2)
  on conflict on constraint access_pkey do update set role = excluded.role where a.role <> excluded.role;
$$;
