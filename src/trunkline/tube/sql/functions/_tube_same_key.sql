/* Whether a row r has the key k.key, as an expression. */
create or replace function trunkline._tube_same_key(attached trunkline.tube_table)
returns text language plpgsql stable as $$
declare
  types text[] := trunkline._tube_key_types(attached.relation, attached.key_columns);
begin
  if cardinality(types) = 1 then
    return format('r.%I = k.key::%s', attached.key_columns[1], types[1]);
  end if;
  return (select string_agg(format('r.%I = (k.key::jsonb ->> %s)::%s', c, i - 1, types[i]), ' and ')
            from unnest(attached.key_columns) with ordinality u (c, i));
end $$;
select trunkline._access('_tube_same_key(trunkline.tube_table)', 'reader');
