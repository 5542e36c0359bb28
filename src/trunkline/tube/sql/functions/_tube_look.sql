/* The statements that collect the keys (and shards, if they are computed) of a change.  Of an update both images
   count.  Keys that a unique index vouches for cannot repeat in one image; others are made distinct. */
create or replace function trunkline._tube_look(attached trunkline.tube_table, matches text)
returns text language plpgsql stable as $$
declare
  one boolean := exists (select from pg_index i where i.indrelid = attached.relation and i.indisunique and i.indpred is null and i.indexprs is null
    and array(select a.attname::text from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any (i.indkey::int2[])) <@ attached.key_columns);
  computed boolean := attached.shard_expression is not null;
  image text := concat('select ', case when not one then 'distinct ' end, case when computed then trunkline._tube_shard(attached) || ' as shard, ' end,
    trunkline._hook_key(attached.key_columns, attached.key_types), ' as key from ');
  wanted text := ' r' || coalesce(' where ' || matches, '');
  gather text := case when computed then 'select array_agg(t.shard), array_agg(t.key) into shards, keys from (%s) t;' else 'keys := array(%s);' end;
begin
  return concat(
    E'\n    if tg_op = ''INSERT'' then\n      ', format(gather, image || 'new_rows' || wanted),
    E'\n    elsif tg_op = ''DELETE'' then\n      ', format(gather, image || 'old_rows' || wanted),
    E'\n    else\n      ', format(gather, concat(image, 'old_rows', wanted, ' union ', image, 'new_rows', wanted)),
    E'\n    end if;');
end $$;
select trunkline._access('_tube_look(trunkline.tube_table, text)', 'writer');
