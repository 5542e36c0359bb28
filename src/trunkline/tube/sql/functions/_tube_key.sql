/* The key of a row r as text: the column, or a JSON array of the columns. */
create or replace function trunkline._tube_key(attached trunkline.tube_table)
returns text language sql immutable as $$
  select case when cardinality(attached.key_columns) = 1 then format('r.%I::text', attached.key_columns[1])
              else format('jsonb_build_array(%s)::text', (select string_agg(format('r.%I', c), ', ' order by i) from unnest(attached.key_columns) with ordinality u (c, i))) end;
$$;
select trunkline._access('_tube_key(trunkline.tube_table)', 'reader');
