/* Make a staging table trunkline.spark_staging_<number> for rows of these columns; only the caller may write and read
   it.  Unlogged: what it holds is acknowledged to nobody before it was moved.  Types are names of pg_catalog.
   Returns the number.  Errors: TL422 lengths that differ, a type that is not one of Postgres' own. */
create or replace function trunkline.spark_stage(columns text[], types text[])
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  definition text;
  type text;
  strange boolean;
begin
  if coalesce(cardinality(columns), 0) = 0 or cardinality(columns) <> cardinality(types) then
    raise exception using errcode = 'TL422', message = format('expected as many types as columns and at least one, got %s columns and %s types.',
      coalesce(cardinality(columns), 0), coalesce(cardinality(types), 0));
  end if;
  foreach type in array types loop
    begin
      strange := not exists (select from pg_type t where t.oid = type::regtype and t.typnamespace = 'pg_catalog'::regnamespace);
    exception when syntax_error or undefined_object or invalid_name or invalid_schema_name then
      strange := true;
    end;
    if strange then
      raise exception using errcode = 'TL422', message = format('"%s" is not a type of pg_catalog.', type);
    end if;
  end loop;
  select string_agg(format('%I %s', u.name, u.type::regtype), ', ' order by u.ordinal) into definition
    from unnest(columns, types) with ordinality u (name, type, ordinal);
  return trunkline._spark_staging_create('rows', definition);
end $$;
comment on function trunkline.spark_stage(text[], text[]) is 'Make an unlogged staging table of these columns for the caller alone; returns its number.';
select trunkline._access('spark_stage(text[], text[])', 'writer');
