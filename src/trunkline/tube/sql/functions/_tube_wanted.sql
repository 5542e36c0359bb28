/* What an attachment should look like; everything that does not fit is TL422. */
create or replace function trunkline._tube_wanted(
  tube trunkline.tube, relation regclass, shard text, condition text, key_columns text[], on_error text)
returns trunkline.tube_table language plpgsql stable as $$
declare
  wanted trunkline.tube_table;
  class pg_class;
begin
  select c.* into class from pg_class c where c.oid = relation;
  if not found or class.relkind not in ('r', 'p') then
    perform trunkline._raise('TL422', format('%s is not a table.', coalesce(relation::text, 'NULL')));
  elsif not pg_has_role(class.relowner, 'usage') then
    perform trunkline._raise('TL403', format('table %s belongs to %s: only its owner may attach it.', relation, class.relowner::regrole));
  elsif on_error is null or on_error not in ('fail', 'gap') then
    perform trunkline._raise('TL422', format('on_error is "fail" or "gap", got "%s".', on_error));
  end if;
  wanted.tube_id := tube.tube_id;
  wanted.relation := relation;
  wanted.relation_name := relation::text;
  wanted.condition := nullif(condition, '');
  wanted.on_error := on_error;
  wanted.key_columns := coalesce(key_columns, (
    select array_agg(a.attname::text order by k.place) from pg_index i
      cross join lateral unnest(i.indkey::int2[]) with ordinality k (attnum, place)
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
     where i.indrelid = relation and i.indisprimary));
  if coalesce(cardinality(wanted.key_columns), 0) = 0 then
    perform trunkline._raise('TL422', format('table %s has no primary key.', relation), 'Name the columns that identify a row in key_columns.');
  end if;
  select array_agg(format_type(a.atttypid, a.atttypmod) order by c.place) into wanted.key_types
    from unnest(wanted.key_columns) with ordinality c (name, place)
    left join pg_attribute a on a.attrelid = relation and a.attname = c.name and a.attnum > 0 and not a.attisdropped;
  if array_position(wanted.key_types, null) is not null then
    perform trunkline._raise('TL422', format('table %s has no column "%s".', relation, wanted.key_columns[array_position(wanted.key_types, null)]));
  end if;
  if shard is null then
    wanted.shard := coalesce(substring(class.relnamespace::regnamespace::text from '^[^0-9]+([0-9]{1,9})$'),
                             substring(class.relname from '^[^0-9]+([0-9]{1,9})$'), '0')::int;
  elsif shard ~ '^\s*[0-9]{1,9}\s*$' then
    wanted.shard := shard::int;
  elsif shard ~ '^\s*-?[0-9]+\s*$' then
    perform trunkline._raise('TL422', format('a shard is a number from 0 to 999999999, got %s.', shard));
  else
    perform trunkline._tube_check_expression(relation, shard, 'int');
    wanted.shard_expression := shard;
  end if;
  perform trunkline._tube_check_expression(relation, wanted.condition, 'boolean');
  perform trunkline._tube_check_expression(relation, tube.condition, 'boolean');
  return wanted;
end $$;
select trunkline._access('_tube_wanted(trunkline.tube, regclass, text, text, text[], text)', 'writer');
