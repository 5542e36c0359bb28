/* The statements that collect the keys (and shards, if they are computed) of a change.  Of an update both images
   count.  Keys that a unique index vouches for cannot repeat in one image; others are made distinct. */
create or replace function trunkline._tube_look(attached trunkline.tube_table, shard_expression text, matches text)
returns text language plpgsql stable as $$
declare
  key text := trunkline._tube_key(attached);
  one boolean := exists (select from pg_index i where i.indrelid = attached.relation and i.indisunique and i.indpred is null and i.indexprs is null
    and array(select a.attname::text from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any (i.indkey::int2[])) <@ attached.key_columns);
  image text := 'select ' || case when one then '' else 'distinct ' end
    || case when shard_expression is null then '' else 'greatest(coalesce((' || shard_expression || E'\n)::int, 0), 0) as shard, ' end
    || key || ' as key from ';
  wanted text := ' r' || case when matches <> '' then ' where ' || matches else '' end;
  gather text := case when shard_expression is null then 'select array_agg(t.key) into keys from ('
                      else 'select array_agg(t.shard), array_agg(t.key) into shards, keys from (' end;
begin
  return concat(
    E'\n    if tg_op = ''INSERT'' then\n      ', gather, image, 'new_rows', wanted, ') t;',
    E'\n    elsif tg_op = ''DELETE'' then\n      ', gather, image, 'old_rows', wanted, ') t;',
    E'\n    else\n      ', gather, image, 'old_rows', wanted, ' union ', image, 'new_rows', wanted, ') t;',
    E'\n    end if;');
end $$;
select trunkline._access('_tube_look(trunkline.tube_table, text, text)', 'writer');
