/* The watches of which a role may read the events; NULL: of all.  These are the tables that the role may SELECT as a whole, if no row-level security
   applies to it.  Admins read all, also the events of tables that are no longer watched. */
create or replace function trunkline._watch_readable(role name)
returns int[] language sql stable as $$
  select case when not trunkline._setting('broker.watch_open')::boolean and not exists (
      select from pg_roles r where (r.rolname = 'trunkline_admin' or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'trunkline'))
         and pg_has_role($1, r.oid, 'usage'))
    then array(
      select w.watch from trunkline.broker_watched_table w join pg_class c on c.oid = w.relation join pg_roles me on me.rolname = $1
       where has_table_privilege(me.oid, c.oid, 'select')
         and (not c.relrowsecurity or me.rolsuper or me.rolbypassrls or not c.relforcerowsecurity and pg_has_role(me.oid, c.relowner, 'usage'))) end;
$$;
