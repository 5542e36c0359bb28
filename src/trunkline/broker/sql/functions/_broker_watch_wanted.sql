/* What the watch of a table should look like; TL403 for a table of somebody else, TL422 for what does not fit. */
create or replace function trunkline._broker_watch_wanted(relation regclass, operations text[], columns text[], condition text)
returns trunkline.broker_watched_table language plpgsql stable as $$
declare
  wanted trunkline.broker_watched_table;
  class record;
  other text;
begin
  select c.relkind, c.relowner, c.relname, n.nspname, c.relpersistence into class
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
  if not found or class.relkind not in ('r', 'p') or class.relpersistence = 't' or class.nspname in ('trunkline', 'pg_catalog', 'information_schema') then
    raise exception using errcode = 'TL422', message = format('%s is not a table that can be watched.', coalesce(relation::text, 'NULL')),
      hint = 'Watch a table that is neither temporary nor of the system.';
  elsif not pg_has_role(class.relowner, 'usage') then
    raise exception using errcode = 'TL403', message = format('table %s belongs to %s: only its owner may watch it.', relation, class.relowner::regrole);
  elsif not has_function_privilege(class.relowner, 'trunkline._broker_capture(text, jsonb, text[], jsonb[], text[], jsonb[], int, uuid)', 'execute') then
    raise exception using errcode = 'TL403', message = format('events of table %s are published for its owner %s, who may not publish.', relation, class.relowner::regrole),
      hint = format('Have a DBA run: grant trunkline_writer to %s;', class.relowner::regrole);
  elsif operations is null or cardinality(operations) = 0 then
    raise exception using errcode = 'TL422', message = 'choose at least one of on_insert, on_update, on_delete, on_truncate, each of them true or false.';
  end if;
  select format('"%s"', k) into other from unnest(columns) k
   where not exists (select from trunkline._broker_watch_columns(relation) c where c.name = k and not c.extra) limit 1;
  if found or cardinality(columns) = 0 then
    raise exception using errcode = 'TL422', message = format('columns are names of columns of table %s, got %s.', relation, coalesce(other, 'none')),
      hint = 'Leave columns out for all of them.';
  end if;
  wanted.relation := relation;
  wanted.relation_name := format('%I.%I', class.nspname, class.relname);
  wanted.topic := lower(class.nspname || '.' || class.relname);
  wanted.operations := operations;
  wanted.columns := (select array_agg(c.name order by c.place) from trunkline._broker_watch_columns(relation) c where c.name = any (_broker_watch_wanted.columns));
  wanted.key_columns := trunkline._broker_watch_primary_key(relation);
  wanted.condition := nullif(condition, '');
  if trunkline._event_fault(wanted.topic || '.truncate', null, null) is not null then
    raise exception using errcode = 'TL422', message = trunkline._event_fault(wanted.topic || '.truncate', null, null),
      hint = 'Topics are made of the name of the table.';
  end if;
  return wanted;
end $$;
select trunkline._access('_broker_watch_wanted(regclass, text[], text[], text)', 'writer');
