/* The trigger function of a watched table: the one that its triggers call; before there are any, beside the table. */
create or replace function trunkline._broker_watch_function(watched trunkline.broker_watched_table)
returns text language sql stable as $$
  select format('%I.%I', n.nspname, 'trunkline_watch_' || watched.watch)
    from pg_namespace n
   where n.oid = coalesce(
     (select p.pronamespace from pg_trigger g join pg_proc p on p.oid = g.tgfoid
       where g.tgrelid = watched.relation and g.tgname like format(E'trunkline\\_watch\\_%s\\_%%', watched.watch) limit 1),
     (select c.relnamespace from pg_class c where c.oid = watched.relation));
$$;
select trunkline._access('_broker_watch_function(trunkline.broker_watched_table)', 'reader');
