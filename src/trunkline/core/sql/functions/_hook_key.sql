/* The key of a row r as text, told by the names and types of its columns: the column, or a JSON array of the columns. */
create or replace function trunkline._hook_key(key_columns text[], key_types text[])
returns text language sql immutable as $$
  select case when cardinality(key_columns) = 1 then format('(%s)::text', min(p.part))
              else format('jsonb_build_array(%s)::text', string_agg(p.part, ', ' order by p.place)) end
    from (select trunkline._hook_key_part(u.name, u.type) as part, u.place
            from unnest(key_columns, key_types) with ordinality u (name, type, place)) p;
$$;
select trunkline._access('_hook_key(text[], text[])', 'reader');
