/* Whether who asks may act for the owner of the schema or for trunkline_admin.  That is whoever the session has become with SET ROLE, as the gateway does
   for those it serves, and otherwise who is logged in: inside of a function of the owner's, current_user is neither. */
create or replace function trunkline._administers()
returns boolean language sql stable as $$
  select coalesce(bool_or(pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user::text), r.oid, 'member')), false) from pg_roles r
   where r.rolname = 'trunkline_admin' or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'trunkline');
$$;
