/* Put one trigger of a watched table on it or a part of it, or take it away; the caller has locked that table. */
create or replace function trunkline._broker_watch_trigger_put(watched trunkline.broker_watched_table, child regclass, operation text, there boolean)
returns void language plpgsql as $$
declare
  name text := format('trunkline_watch_%s_%s', watched.watch, operation);
begin
  if there then
    execute format('drop trigger %I on %s', name, child);
  else
    execute format('create trigger %I after %s on %s %s for each statement execute function %s(%s)', name, operation, child,
      case operation when 'insert' then 'referencing new table as new_rows' when 'update' then 'referencing old table as old_rows new table as new_rows'
                     when 'delete' then 'referencing old table as old_rows' else '' end,
      trunkline._broker_watch_function(watched), case when child <> watched.relation then '''part''' else '' end);
  end if;
end $$;
select trunkline._access('_broker_watch_trigger_put(trunkline.broker_watched_table, regclass, text, boolean)', 'writer');
