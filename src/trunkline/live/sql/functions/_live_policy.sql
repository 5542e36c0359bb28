/* What the policies of a table let a role see, as one expression over a row that bears the name of the table; NULL where they do not
   concern the role.  Only policies that speak of the row, of settings and of who asks: one that looks into tables would be judged by what
   they say later, and might show a row that nobody was to see.  So functions of users must be immutable, or take nothing.  Nor may one
   speak of columns that events do not have.
   Errors: TL409 columns have other names than they had when somebody subscribed, TL422 names the policy that cannot be judged, TL404 no such role. */
create or replace function trunkline._live_policy(relation regclass, role name)
returns text language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  class record;
  judged record;
  bad text;
begin
  select c.relrowsecurity, c.relforcerowsecurity, c.relowner into class from pg_class c where c.oid = relation;
  select r.oid, r.rolsuper, r.rolbypassrls into judged from pg_roles r where r.rolname = role;
  if judged.oid is null then
    raise exception using errcode = 'TL404', message = format('there is no role %s.', quote_ident(role));
  end if;
  perform trunkline._live_check(relation);
  if not class.relrowsecurity or judged.rolsuper or judged.rolbypassrls
        or not class.relforcerowsecurity and pg_has_role(judged.oid, class.relowner, 'usage') then
    return null;
  end if;
  select format('policy %I of table %s %s', p.polname, relation,
           case when p.polqual::text ~ '{SUBLINK ' then 'looks into tables' else 'calls a function that may look into tables' end) into bad
    from pg_policy p
   where p.polrelid = relation and p.polcmd in ('*', 'r') and trunkline._live_policy_of(p.polroles, judged.oid) and p.polqual is not null
     and (p.polqual::text ~ '{SUBLINK ' or exists (
       select from trunkline._condition_functions(p.polqual::text) f join pg_proc o on o.oid = f
        where o.pronamespace <> 'pg_catalog'::regnamespace and (o.provolatile = 'v' or o.provolatile = 's' and o.pronargs > 0)))
   order by p.polname limit 1;
  if bad is null then
    select format('policy %I of table %s speaks of column %I, which is not among those that are told', s.policy, relation, s.name) into bad
      from trunkline._live_policy_columns(relation, role) s
     where not exists (select from trunkline._live_column(relation) c where c.name = s.name) order by s.policy, s.name limit 1;
  end if;
  if bad is not null then
    raise exception using errcode = 'TL422', message = format('%s: it cannot be judged for a row of the past.', bad),
      hint = 'Let the policy speak of columns, current_setting() and functions that are immutable or take nothing.';
  end if;
  return (select format('((%s) and (%s))',
            coalesce(string_agg(pg_get_expr(p.polqual, p.polrelid), ' or ') filter (where p.polpermissive), 'false'),
            coalesce(string_agg('(' || pg_get_expr(p.polqual, p.polrelid) || ')', ' and ') filter (where not p.polpermissive), 'true'))
            from pg_policy p
           where p.polrelid = relation and p.polcmd in ('*', 'r') and trunkline._live_policy_of(p.polroles, judged.oid) and p.polqual is not null);
end $$;
select trunkline._access('_live_policy(regclass, name)', 'reader');
