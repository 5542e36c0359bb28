/* The document of a key as an expression over k (key, shard): the attached row as JSON; NULL when it is gone, does not
   meet the conditions or, if the shard counts, is in another one. */
create or replace function trunkline._tube_document(attached trunkline.tube_table, by_shard boolean)
returns text language plpgsql stable as $$
declare
  types text[];
begin
  if attached.relation is null then
    return 'null::jsonb';  -- the table is gone, and its rows with it
  end if;
  types := trunkline._tube_key_types(attached.relation, attached.key_columns);
  return format('(select to_jsonb(r) from %s r where %s limit 1)', attached.relation, concat_ws(' and ',
    case when cardinality(types) = 1 then format('r.%I = k.key::%s', attached.key_columns[1], types[1])
         else (select string_agg(format('r.%I = (k.key::jsonb ->> %s)::%s', c, i - 1, types[i]), ' and ')
                 from unnest(attached.key_columns) with ordinality u (c, i)) end,
    trunkline._tube_conditions(attached),
    case when by_shard then format('k.shard = %s', case when attached.shard is null then trunkline._tube_shard(attached) else attached.shard::text end) end));
end $$;
select trunkline._access('_tube_document(trunkline.tube_table, boolean)', 'reader');
