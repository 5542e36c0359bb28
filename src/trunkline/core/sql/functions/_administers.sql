/* Whether the role that the session acts as has the rights of trunkline_admin or of the owner of the schema. */
create or replace function trunkline._administers()
returns boolean language sql stable as $$
  select coalesce(bool_or(pg_has_role(trunkline._caller(), r.oid, 'member')), false) from pg_roles r
   where r.rolname = 'trunkline_admin' or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'trunkline');
$$;
