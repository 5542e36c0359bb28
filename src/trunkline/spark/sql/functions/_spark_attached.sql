/* The tables of a tube (or one) as far as reading their rows by key needs them: the name as it is now, quoted; columns and
   types of the key; the conditions of tube and table as one expression over a row r; whether a row may change its
   shard; how many rows there are in the planner's opinion.  No row for a table that is not attached. */
create or replace function trunkline._spark_attached(tube text, relation text default null)
returns table (relation text, key_columns text[], key_types text[], condition text, moves boolean, estimate bigint)
language sql stable as $$
  select format('%I.%I', n.nspname, c.relname), l.key_columns, trunkline._tube_key_types(l.relation, l.key_columns),
         coalesce(nullif(concat_ws(' and ', '(' || l.condition || E'\n)', '(' || l.table_condition || E'\n)'), ''), 'true'),
         l.shard !~ '^[0-9]+$', greatest(c.reltuples, 0)::bigint
    from trunkline.tube_list() l
    join pg_catalog.pg_class c on c.oid = l.relation join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where l.tube = $1 and ($2 is null or l.relation = to_regclass($2));
$$;
select trunkline._access('_spark_attached(text, text)', 'reader');
