/* How many bytes a row of a table takes on disk, about, with what is stored beside it and over all partitions; 0 where nobody
   counted the rows yet. */
create or replace function trunkline._spark_row_bytes(relation text)
returns bigint language sql stable as $$
  select coalesce(sum(pg_table_size(c.oid)) / nullif(sum(greatest(c.reltuples, 0)), 0), 0)::bigint
    from (select to_regclass($1) as root) r
    cross join lateral (select root union select relid from pg_partition_tree(root)) t (relid)
    join pg_catalog.pg_class c on c.oid = t.relid
   where c.relkind <> 'p';
$$;
select trunkline._access('_spark_row_bytes(text)', 'reader');
