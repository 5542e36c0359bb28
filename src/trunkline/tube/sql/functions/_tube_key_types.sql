/* The types of key columns as they are now, those of domains resolved.  TL422 for a column that is not there, may be
   NULL (such rows could not be told apart, nor be reached by a backfill) or is not seen by triggers. */
create or replace function trunkline._tube_key_types(relation regclass, key_columns text[])
returns text[] language plpgsql stable as $$
declare
  types text[];
  wrong text;
begin
  select array_agg(case when t.typbasetype <> 0 then format_type(t.typbasetype, t.typtypmod) else format_type(a.atttypid, a.atttypmod) end order by c.place),
         min(c.name) filter (where a.attname is null)
    into types, wrong
    from unnest(key_columns) with ordinality c (name, place)
    left join (pg_attribute a join pg_type t on t.oid = a.atttypid)
      on a.attrelid = relation and a.attname = c.name and a.attnum > 0 and not a.attisdropped and a.attnotnull and a.attgenerated <> 'v';
  if wrong is not null or array_position(key_columns, null) is not null then
    perform trunkline._raise('TL422', format('table %s has no column %s that is not null.', relation, coalesce(format('"%s"', wrong), 'NULL')),
      'A key is made of stored columns that are declared NOT NULL.');
  end if;
  return types;
end $$;
select trunkline._access('_tube_key_types(regclass, text[])', 'reader');
