/* The watches of which a role may read the events; NULL: of all.  These are the tables that the role may SELECT as a whole, if no row-level security
   applies to it, and those on which it has "read".  Admins read all, also the events of tables that are no longer watched. */
create or replace function trunkline._watch_readable(role name)
returns int[] language plpgsql stable as $$
begin
  if trunkline._setting('broker.watch_open')::boolean then
    return null;
  elsif not exists (select from pg_roles r where r.rolname = role) then
    return '{}';
  elsif exists (select from pg_roles r where (r.rolname = 'trunkline_admin' or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'trunkline'))
                   and pg_has_role(role, r.oid, 'usage')) then
    return null;
  end if;
  return array(
    select w.watch from trunkline.broker_watched_table w join pg_class c on c.oid = w.relation join pg_roles me on me.rolname = role
     where has_table_privilege(me.oid, c.oid, 'select')
           and (not c.relrowsecurity or me.rolsuper or me.rolbypassrls or not c.relforcerowsecurity and pg_has_role(me.oid, c.relowner, 'usage'))
        or trunkline._may('table:' || w.relation_name, '{read}', role));
end $$;
