/* Stop watching a table; what was written before stays an event.  You must own the table.  Returns whether it was watched.
   Errors: TL403, TL409 no lock, TL422. */
create or replace function trunkline.broker_unwatch(relation regclass)
returns boolean language plpgsql as $$
declare
  present trunkline.broker_watched_table := trunkline._broker_watch_row(relation);
  owner regrole := (select c.relowner from pg_class c where c.oid = relation);
begin
  if relation is null then
    raise exception using errcode = 'TL422', message = 'name the table to unwatch.';
  elsif present.watch is null then
    return false;
  elsif not pg_has_role(owner, 'usage') then
    raise exception using errcode = 'TL403', message = format('table %s belongs to %s: only its owner may unwatch it.', relation, owner);
  end if;
  present.operations := '{}';
  perform trunkline._broker_watch_trigger(present);
  perform trunkline._hook_function_drop('trunkline_watch_' || present.watch);
  perform trunkline._broker_watch_end(present.watch);
  return true;
end $$;
comment on function trunkline.broker_unwatch(regclass) is 'Stop watching a table.';
select trunkline._access('broker_unwatch(regclass)', 'writer');
