/* What is wrong with a watch, in words; NULL when nothing is. */
create or replace function trunkline._broker_watch_fault(watched trunkline.broker_watched_table)
returns text language sql stable as $$
  select coalesce(
    (select format('table %s became a part of %s: what is written there is not seen. Watch that one.', watched.relation, i.inhparent::regclass)
       from pg_inherits i where i.inhrelid = watched.relation limit 1),
    (select format('column %s is gone or has another name: watch the table again.', quote_ident(k)) from unnest(watched.key_columns || watched.columns) k
      where not exists (select from trunkline._broker_watch_columns(watched.relation) c where c.name = k and not c.extra) limit 1),
    (select format('table %s misses triggers: they come with the next maintenance, or watch %s again.', t.relation, watched.relation)
       from trunkline._broker_watch_triggers(watched) t where not t.there limit 1));
$$;
