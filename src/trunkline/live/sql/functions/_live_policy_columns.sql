/* The columns of a table of which its policies for a role speak; all of them where one speaks of the row as a whole. */
create or replace function trunkline._live_policy_columns(relation regclass, role name)
returns table (policy name, name text) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select p.polname, a.attname::text
    from pg_policy p join pg_attribute a on a.attrelid = p.polrelid and a.attnum > 0 and not a.attisdropped
   where p.polrelid = $1 and p.polcmd in ('*', 'r') and p.polqual is not null
     and trunkline._live_policy_of(p.polroles, (select r.oid from pg_roles r where r.rolname = $2))
     and (p.polqual::text ~ ':varattno 0 ' or exists (
       select from pg_depend d where d.classid = 'pg_policy'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
          and d.refobjid = $1 and d.refobjsubid = a.attnum));
$$;
select trunkline._access('_live_policy_columns(regclass, name)', 'reader');
