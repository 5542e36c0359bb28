/* Whether who is logged in may act for the owner of the schema or for trunkline_admin. */
create or replace function trunkline._administers()
returns boolean language sql stable as $$
  select coalesce(bool_or(pg_has_role(session_user, r.oid, 'member')), false) from pg_roles r
   where r.rolname = 'trunkline_admin' or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'trunkline');
$$;
