/* Tubes, their owners and their tables; a tube without tables is one row with NULLs. */
create or replace function trunkline.tube_list(relation regclass default null)
returns table (tube text, lanes int, condition text, relation regclass, shard text, key_columns text[], table_condition text, on_error text, gaps bigint, owner name)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.tube, t.lanes, t.condition, a.relation, coalesce(a.shard::text, a.shard_expression), a.key_columns, a.condition, a.on_error,
         (select count(*) from trunkline.tube_gap g where g.attachment = a.attachment),
         (select o.owner from trunkline.object o where o.object = 'tube:' || t.tube)
    from trunkline.tube t left join trunkline.tube_table a on a.tube_id = t.tube_id and a.detached_at is null
   where $1 is null or a.relation = $1
   order by t.tube, a.attachment;
$$;
comment on function trunkline.tube_list(regclass) is 'Tubes and their tables.';
select trunkline._access('tube_list(regclass)', 'reader');
