/* The key of a row r as text: the column, or a JSON array of the columns. */
create or replace function trunkline._tube_key(attached trunkline.tube_table)
returns text language sql immutable as $$
  select case when cardinality(attached.key_columns) = 1 then format('(%s)::text', min(p.part))
              else format('jsonb_build_array(%s)::text', string_agg(p.part, ', ' order by p.place)) end
    from (select trunkline._tube_key_part(u.name, u.type) as part, u.place
            from unnest(attached.key_columns, attached.key_types) with ordinality u (name, type, place)) p;
$$;
select trunkline._access('_tube_key(trunkline.tube_table)', 'reader');
