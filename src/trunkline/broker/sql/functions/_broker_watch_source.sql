/* The text of the trigger function of a watched table.  A change is looked at as a whole; when anything fails (a condition, a
   column that has another name now) its rows are looked at one by one, and none is lost. */
create or replace function trunkline._broker_watch_source(watched trunkline.broker_watched_table)
returns text language plpgsql stable as $$
declare
  key_ text := trunkline._broker_watch_key(watched);
  image_ text := trunkline._broker_watch_image(watched);
  wanted text := coalesce(E' where (' || watched.condition || E'\n)', '');
begin
  return format($text$
#variable_conflict use_column
declare
  base jsonb := jsonb_build_object('op', lower(tg_op), 'table', %1$L);
  kinds text[];
  keys text[];
  payloads jsonb[];
  metadatas jsonb[];
  part record;
  by_key boolean := false;
begin
  if tg_op = 'TRUNCATE' then
    if tg_nargs > 0 then
      base := base || jsonb_build_object('part', format('%%I.%%I', tg_table_schema, tg_table_name));
    end if;
    perform trunkline._broker_capture(%2$L, 'truncate', base, array[null::text], array['{}'::jsonb]);
    return null;
  end if;
  begin
    if tg_op = 'INSERT' then%3$s
    elsif tg_op = 'DELETE' then%4$s
    else%5$s%6$s
    end if;
  exception when others then
    for part in execute trunkline._broker_watch_judged(lower(tg_op), tg_relid, %7$L, by_key) using %8$L::text, %9$L::text, %10$L::text, %11$L::text[] loop
      perform trunkline._broker_capture(%2$L, part.kind, base, array[part.key], array[part.payload], null, array[part.metadata]);
    end loop;
    return null;
  end;
  if cardinality(keys) > 0 then
    perform trunkline._broker_capture(%2$L, lower(tg_op), base, keys, payloads, kinds, metadatas);
  end if;
  return null;
end $text$, watched.relation_name, watched.topic,
    trunkline._broker_watch_take(watched, concat('select ', key_, ' as key, ', image_, ' as payload from new_rows r', wanted), false),
    trunkline._broker_watch_take(watched, concat('select ', key_, ' as key, ', image_, ' as payload from old_rows r', wanted), false),
    case when exists (select from pg_class c where c.oid = watched.relation and c.relkind = 'p') then $text$
      by_key := (select count(*) from old_rows) <> (select count(*) from new_rows);
      if by_key then
        raise 'a row did not arrive in another partition';
      end if;$text$ end,
    trunkline._broker_watch_take(watched, trunkline._broker_watch_events('update', trunkline._broker_watch_rows(watched, 'old_rows'),
      trunkline._broker_watch_rows(watched, 'new_rows'), 'n', watched.key_columns), true),
    watched.key_columns, key_, image_, coalesce(watched.condition, 'true'), case when watched.columns is not null then watched.columns || watched.key_columns end);
end $$;
select trunkline._access('_broker_watch_source(trunkline.broker_watched_table)', 'writer');
