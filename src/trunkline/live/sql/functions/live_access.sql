/* What a role may see of a live table: the columns it may select, and whether policies decide about rows.  No columns: nothing.
   Errors: TL404. */
create or replace function trunkline.live_access(relation regclass, role name)
returns table (columns text[], guarded boolean) language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  guarded := trunkline._live_policy(relation, role) is not null;
  columns := case when has_schema_privilege(role, (select c.relnamespace from pg_class c where c.oid = relation), 'usage')
    then array(select c.name from trunkline._live_column(relation) c where has_column_privilege(role, relation, c.place::int2, 'select') order by c.place)
    else '{}' end;
  return next;
end $$;
comment on function trunkline.live_access(regclass, name) is 'What a role may see of a live table.';
select trunkline._access('live_access(regclass, name)', 'reader');
