/* What an attachment should look like; TL403 for a table of somebody else, TL422 for what does not fit. */
create or replace function trunkline._tube_wanted(
  tube trunkline.tube, relation regclass, shard text, condition text, key_columns text[], on_error text)
returns trunkline.tube_table language plpgsql stable as $$
declare
  wanted trunkline.tube_table;
  class record;
begin
  select c.relkind, c.relowner, c.relname, n.nspname, c.relpersistence into class
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
  if not found or class.relkind not in ('r', 'p') or class.relpersistence = 't' or class.nspname in ('trunkline', 'pg_catalog') then
    raise exception using errcode = 'TL422', message = format('%s is not a table that can be attached.', coalesce(relation::text, 'NULL')),
      hint = 'Attach a table that is neither temporary nor of the system.';
  elsif not pg_has_role(class.relowner, 'usage') then
    raise exception using errcode = 'TL403', message = format('table %s belongs to %s: only its owner may attach it.', relation, class.relowner::regrole);
  elsif on_error is null or on_error not in ('fail', 'gap') then
    raise exception using errcode = 'TL422', message = format('on_error is "fail" or "gap", got %s.', coalesce('"' || left(on_error, 80) || '"', 'NULL'));
  end if;
  wanted.tube_id := tube.tube_id;
  wanted.relation := relation;
  -- the same whatever search_path is: documents downstream are kept under it
  wanted.relation_name := case when class.nspname = 'public' then format('%I', class.relname) else format('%I.%I', class.nspname, class.relname) end;
  wanted.condition := nullif(condition, '');
  wanted.on_error := on_error;
  wanted.key_columns := coalesce(key_columns, (
    select array_agg(a.attname::text order by k.place) from pg_index i
      cross join lateral unnest(i.indkey::int2[]) with ordinality k (attnum, place)
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
     where i.indrelid = relation and i.indisprimary and k.place <= i.indnkeyatts));
  if coalesce(cardinality(wanted.key_columns), 0) = 0 then
    raise exception using errcode = 'TL422', message = format('table %s has no primary key.', relation),
      hint = 'Name the columns that identify a row in key_columns.';
  end if;
  wanted.key_types := trunkline._tube_key_types(relation, wanted.key_columns, making => true);
  if shard is null then
    wanted.shard := coalesce(substring(class.nspname from '^[^0-9]+([0-9]{1,9})$'), substring(class.relname from '^[^0-9]+([0-9]{1,9})$'), '0')::int;
  elsif shard ~ E'^\\s*[0-9]{1,9}\\s*$' then
    wanted.shard := shard::int;
  elsif shard ~ E'^\\s*-?[0-9]+\\s*$' then
    raise exception using errcode = 'TL422', message = format('a shard is a number from 0 to 999999999, got %s.', shard);
  else
    wanted.shard_expression := shard;
  end if;
  return wanted;
end $$;
select trunkline._access('_tube_wanted(trunkline.tube, regclass, text, text, text[], text)', 'writer');
