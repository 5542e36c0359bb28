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
  base jsonb := case tg_op when 'INSERT' then %13$L::jsonb when 'UPDATE' then %14$L::jsonb when 'DELETE' then %15$L::jsonb else %1$L::jsonb end;
  topic text := case tg_op when 'INSERT' then %16$L when 'UPDATE' then %12$L when 'DELETE' then %17$L else %2$L end;
  keys text[];
  payloads jsonb[];
  kinds text[];
  metadatas jsonb[];
  part record;
  by_key boolean := false;
  pass uuid := (select p.pass from trunkline.broker_watch_pass p where p.watch = %18$s);
begin
  if tg_op = 'TRUNCATE' then
    base := base || case when tg_nargs > 0 then jsonb_build_object('part', trunkline._hook_name(tg_relid)) else '{}' end;
    perform trunkline._broker_capture(topic, base, array[null::text], array['{}'::jsonb], watch => %18$s, pass => pass);
    return null;
  end if;
  begin
    if tg_op = 'INSERT' then%3$s
    elsif tg_op = 'DELETE' then%4$s
    else%5$s%6$s
    end if;
  exception when others then
    for part in execute trunkline._broker_watch_judged(lower(tg_op), tg_relid, %7$L, by_key) using %8$L::text, %9$L::text, %10$L::text, %11$L::text[] loop
      perform trunkline._broker_capture(%12$L, base, array[part.key], array[part.payload], array[part.kind], array[part.metadata], %18$s, pass);
    end loop;
    return null;
  end;
  if cardinality(keys) > 0 then
    perform trunkline._broker_capture(topic, base, keys, payloads, kinds, metadatas, %18$s, pass);
  end if;
  return null;
end $text$, jsonb_build_object('op', 'truncate', 'table', watched.relation_name), watched.topic || '.truncate',
    trunkline._broker_watch_take(concat('select ', key_, ' as key, ', image_, ' as payload from new_rows r', wanted), false, watched.watch),
    trunkline._broker_watch_take(concat('select ', key_, ' as key, ', image_, ' as payload from old_rows r', wanted), false, watched.watch),
    case when exists (select from pg_class c where c.oid = watched.relation and c.relkind = 'p') then $text$
      by_key := (select count(*) from old_rows) <> (select count(*) from new_rows);
      if by_key then
        raise 'a row did not arrive in another partition';
      end if;$text$ end,
    trunkline._broker_watch_take(trunkline._broker_watch_events('update', trunkline._broker_watch_rows(watched, 'old_rows'),
      trunkline._broker_watch_rows(watched, 'new_rows'), 'n', watched.key_columns), true, watched.watch),
    watched.key_columns, key_, image_, coalesce(watched.condition, 'true'),
    case when watched.columns is not null then watched.columns || watched.key_columns end, watched.topic,
    jsonb_build_object('op', 'insert', 'table', watched.relation_name), jsonb_build_object('op', 'update', 'table', watched.relation_name),
    jsonb_build_object('op', 'delete', 'table', watched.relation_name), watched.topic || '.insert', watched.topic || '.delete', watched.watch);
end $$;
select trunkline._access('_broker_watch_source(trunkline.broker_watched_table)', 'writer');
