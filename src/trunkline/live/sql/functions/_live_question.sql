/* The question which rows the policies of a table let a role see, as a statement over rows ($1, as JSON or as its text) and the numbers of those that are asked for ($2); NULL
   where no policy concerns the role.  A row that lacks a column of which a policy speaks is seen by nobody.  TL403 for who may not act as the role. */
create or replace function trunkline._live_question(relation regclass, role name)
returns text language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  policy text := trunkline._live_policy(relation, role);
begin
  if policy is null then
    return null;
  elsif not pg_has_role(role, 'member') then
    raise exception using errcode = 'TL403', message = format('%s may not act as %s.', quote_ident(current_user), quote_ident(role)),
      hint = format('Have a DBA run: grant %I to %I;', role, current_user);
  end if;
  return format('select coalesce(array_agg(i.image is not null and i.image ?& %L and coalesce((select %s from jsonb_populate_record(null::%s, i.image) %I), false) order by u.place), ''{}'')'
                ' from unnest($2) with ordinality u (n, place) cross join lateral (select ($1)[u.n]::jsonb as image offset 0) i',
    array(select distinct c.name from trunkline._live_policy_columns(relation, role) c), policy, relation, (select c.relname from pg_class c where c.oid = relation));
end $$;
select trunkline._access('_live_question(regclass, name)', 'reader');
