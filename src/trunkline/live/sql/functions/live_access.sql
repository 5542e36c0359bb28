/* What a role may see of a live table: the columns it may select, and whether policies decide about rows.  No columns: nothing.
   oldest: the lowest id of the events that it is to be told of.
   Errors: TL404, TL409 a column got another name or left after that, TL422 a policy that cannot be judged. */
create or replace function trunkline.live_access(relation regclass, role name, oldest bigint default null)
returns table (columns text[], guarded boolean) language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._live_check(relation, oldest);
  guarded := trunkline._live_policy(relation, role) is not null;
  columns := case when has_schema_privilege(role, (select c.relnamespace from pg_class c where c.oid = relation), 'usage')
    then array(select c.name from trunkline._live_column(relation) c where has_column_privilege(role, relation, c.place::int2, 'select') order by c.place)
    else '{}' end;
  return next;
end $$;
comment on function trunkline.live_access(regclass, name, bigint) is 'What a role may see of a live table.';
select trunkline._access('live_access(regclass, name, bigint)', 'reader');
