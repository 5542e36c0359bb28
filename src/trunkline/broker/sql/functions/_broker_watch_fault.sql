/* What is wrong with a watch, in words; NULL when nothing is. */
create or replace function trunkline._broker_watch_fault(watched trunkline.broker_watched_table)
returns text language sql stable as $$
  select coalesce(
    (select format('table %s became a part of %s: what is written there is not seen. Watch that one.', watched.relation, i.inhparent::regclass)
       from pg_inherits i where i.inhrelid = watched.relation limit 1),
    (select format('column %s is gone or has another name: watch the table again.', quote_ident(k)) from unnest(watched.key_columns || watched.columns) k
      where not exists (select from trunkline._broker_watch_columns(watched.relation) c where c.name = k and not c.extra) limit 1),
    (select format('the primary key of table %s is another now: watch the table again.', watched.relation)
      where watched.key_columns <> trunkline._broker_watch_primary_key(watched.relation)),
    (select format('%s, a part of table %s, is not a table of this server: what is written to it by its own name is not seen.', r, watched.relation)
       from trunkline._hook_tree(watched.relation) r join pg_class c on c.oid = r where c.relkind not in ('r', 'p') limit 1),
    (select format('triggers of table %1$s are disabled: what is written meanwhile is not seen. Enable them: alter table %1$s enable trigger user;', g.tgrelid::regclass)
       from pg_trigger g where g.tgname like format(E'trunkline\\_watch\\_%s\\_%%', watched.watch) and g.tgenabled in ('D', 'R') limit 1),
    (select format('table %s has lost its triggers: watch the table again.', watched.relation)
      where not exists (select from pg_trigger g where g.tgrelid = watched.relation and g.tgname like format(E'trunkline\\_watch\\_%s\\_%%', watched.watch))),
    (select format('the trigger function of table %s is in schema %s, which the table has left: watch the table again before that schema is dropped.', watched.relation, p.pronamespace::regnamespace)
       from pg_proc p join pg_class c on c.oid = watched.relation and c.relnamespace <> p.pronamespace
      where p.oid = to_regprocedure(trunkline._broker_watch_function(watched) || '()')),
    (select format('columns of table %s are not what they were, and events do not tell them as they should: watch the table again.', watched.relation)
       from pg_proc p where p.oid = to_regprocedure(trunkline._broker_watch_function(watched) || '()')
        and (not trunkline._broker_watch_marks(watched) or position(trunkline._broker_watch_image(watched) in p.prosrc) = 0 or position(trunkline._broker_watch_key(watched) in p.prosrc) = 0
             or not p.proconfig @> (trunkline._broker_watch_settings(watched))[2:])),
    (select format('table %s misses triggers: they come with the next maintenance, or watch %s again.', t.relation, watched.relation)
       from trunkline._broker_watch_triggers(watched) t where not t.there limit 1));
$$;
