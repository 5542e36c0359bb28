/* The document of a key as an expression over k (key, shard): the attached row as JSON; NULL when it is gone, does not
   meet the conditions or, if the shard counts, is in another one.  attached is as _tube_reading() gives it.  A row is named r.*: r alone is a column
   where the table has one of that name.  Columns are named in the order in which jsonb keeps them,
   shorter names first: to sort them for every row is a third of what making JSON of it costs. */
create or replace function trunkline._tube_document(attached trunkline.tube_table, by_shard boolean)
returns text language plpgsql stable as $$
begin
  if attached.relation is null then
    return 'null::jsonb';  -- the table is gone, and its rows with it
  end if;
  return format('(select to_jsonb(d.*) from (select %s from %s r where %s limit 1) d)',
    (select string_agg(format('r.%I', a.attname), ', ' order by octet_length(a.attname::text), a.attname)
       from pg_attribute a where a.attrelid = attached.relation and a.attnum > 0 and not a.attisdropped),
    trunkline._hook_name(attached.relation), concat_ws(' and ',
      trunkline._tube_same_key(attached),
      attached.condition,
      case when by_shard then format('k.shard = %s', case when attached.shard is null then trunkline._tube_shard(attached) else attached.shard::text end) end));
end $$;
select trunkline._access('_tube_document(trunkline.tube_table, boolean)', 'reader');
