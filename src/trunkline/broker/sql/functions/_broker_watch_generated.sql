/* Is the trigger function of a watched table as it should be, and where? */
create or replace function trunkline._broker_watch_generated(watched trunkline.broker_watched_table)
returns boolean language sql stable as $$
  select exists (select from pg_proc p join pg_class c on c.oid = watched.relation
                  where p.oid = to_regprocedure(trunkline._broker_watch_function(watched) || '()')
                    and p.prosecdef and p.proowner = c.relowner and p.pronamespace = c.relnamespace
                    and p.prosrc = trunkline._broker_watch_source(watched) and p.proconfig = trunkline._broker_watch_settings(watched));
$$;
select trunkline._access('_broker_watch_generated(trunkline.broker_watched_table)', 'writer');
