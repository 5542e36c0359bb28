/* Before the schema is dropped: take the triggers from one watched table, which could not be written to without it.  Returns
   whether there was one. */
create or replace function trunkline._uninstall_broker()
returns boolean language plpgsql as $$
declare
  present trunkline.broker_watched_table;
begin
  select w.* into present from trunkline.broker_watched_table w limit 1;
  if not found then
    return false;
  elsif exists (select from pg_class c where c.oid = present.relation) then
    return trunkline.broker_unwatch(present.relation);
  end if;
  perform trunkline._hook_function_drop('trunkline_watch_' || present.watch);
  perform trunkline._broker_watch_end(present.watch);
  return true;
end $$;
