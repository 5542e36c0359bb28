/* Keys as capture writes them: of a UUID in capitals and of a number with zeros in front there is one text.  Only of
   types of the system, because the input of others is code of somebody else.  TL422 for what is no key. */
create or replace function trunkline._tube_keys(attached trunkline.tube_table, keys text[])
returns text[] language plpgsql stable
set extra_float_digits = 1 set intervalstyle = 'postgres' as $$
declare
  parts int := cardinality(attached.key_columns);
  plain boolean := not exists (
    select from pg_attribute a join pg_type t on t.oid = a.atttypid
     where a.attrelid = attached.relation and a.attname = any (attached.key_columns) and t.typnamespace <> 'pg_catalog'::regnamespace);
  written text[];
begin
  if attached.attachment is null or parts = 1 and (not plain or attached.key_types = array['text']) then
    return keys;
  elsif parts > 1 then
    select array_agg(k.key::jsonb::text order by k.place) into written from unnest(keys) with ordinality k (key, place);
    if exists (select from unnest(written) k (key) where jsonb_typeof(k.key::jsonb) <> 'array' or jsonb_array_length(k.key::jsonb) <> parts
                  or k.key::jsonb @> '[null]') then
      perform trunkline._tube_key_refuse(attached, format('%s expected', trunkline._counted(parts, 'value is', 'values are')));
    elsif not plain then
      return written;
    end if;
  end if;
  execute format('select array_agg(case when k.key is not null then %s end order by k.place) from unnest($1) with ordinality k (key, place) cross join lateral (select %s) r',
    trunkline._hook_key(attached.key_columns, attached.key_types),
    (select string_agg(format('%s::%s as %I', case when parts > 1 then format('(k.key::jsonb ->> %s)', i - 1) else 'k.key' end, t, c), ', ' order by i)
       from unnest(attached.key_columns, attached.key_types) with ordinality u (c, t, i))) into written using keys;
  return written;
exception when data_exception then
  perform trunkline._tube_key_refuse(attached, sqlerrm);
end $$;
