/* A duty of maintain(): tables that were dropped are no longer watched; new parts get their triggers, parts that left lose them, one
   trigger at a time.  Returns whether there is more. */
create or replace function trunkline.broker_watches_check()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  watched trunkline.broker_watched_table;
  change record;
begin
  for watched in select w.* from trunkline.broker_watched_table w
                  where not exists (select from pg_class c where c.oid = w.relation) for update skip locked loop
    perform trunkline._hook_function_drop('trunkline_watch_' || watched.watch);
    perform trunkline._broker_watch_end(watched.watch);
  end loop;
  for watched in select w.* from trunkline.broker_watched_table w
                  where exists (select from pg_trigger g where g.tgrelid = w.relation and g.tgname like format(E'trunkline\\_watch\\_%s\\_%%', w.watch)) loop
    for change in select * from trunkline._broker_watch_triggers(watched) loop
      if trunkline._broker_watch_trigger_try(watched, change.relation, change.operation, change.there) then
        return true;
      end if;
    end loop;
  end loop;
  return false;
end $$;
comment on function trunkline.broker_watches_check() is 'Dropped tables are no longer watched, new parts get their triggers; a duty of maintain().';
select trunkline._access('broker_watches_check()', 'admin');
insert into trunkline.duty (duty, rank) values ('broker_watches_check', 72) on conflict do nothing;
