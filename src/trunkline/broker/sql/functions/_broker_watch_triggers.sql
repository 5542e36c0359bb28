/* Triggers of a watched table that are missing, or there although nobody wants them: on the table and all its parts but foreign ones,
   which cannot have them. */
create or replace function trunkline._broker_watch_triggers(watched trunkline.broker_watched_table)
returns table (relation regclass, operation text, there boolean) language sql stable as $$
  select coalesce(w.relation, t.relation), coalesce(w.operation, t.operation), t.relation is not null
    from (select r as relation, o as operation from trunkline._hook_tree(watched.relation) r join pg_class c on c.oid = r and c.relkind in ('r', 'p'), unnest(watched.operations) o) w
    full join (select g.tgrelid::regclass as relation, regexp_replace(g.tgname, '^.*_', '') as operation from pg_trigger g
                where g.tgname like format(E'trunkline\\_watch\\_%s\\_%%', watched.watch)) t
      on t.relation = w.relation and t.operation = w.operation
   where w.relation is null or t.relation is null
   order by 1, 2;
$$;
select trunkline._access('_broker_watch_triggers(trunkline.broker_watched_table)', 'reader');
