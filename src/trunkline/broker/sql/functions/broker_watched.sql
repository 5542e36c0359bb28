/* Watched tables, what is watched of them, and what is wrong: fault is NULL when every write is seen as it was asked for.  parts
   counts the partitions and the tables that inherit.  TL404 for a table that is not watched. */
create or replace function trunkline.broker_watched(relation regclass default null)
returns table (watch int, relation regclass, relation_name text, topic text, operations text[], columns text[], key_columns text[], condition text,
  fault text, watched_at timestamptz, parts int)
language sql stable security definer set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
  select trunkline._raise('TL404', format('table %s is not watched.', $1), 'Watch it with broker_watch(); broker_watched() lists those that are.')
   where $1 is not null and not exists (select from trunkline.broker_watched_table w where w.relation = $1);
  select w.watch, w.relation, w.relation_name, w.topic, w.operations, w.columns, w.key_columns, w.condition,
         coalesce(w.fault, trunkline._broker_watch_fault(w)), w.watched_at, (select count(*)::int - 1 from trunkline._hook_tree(w.relation) r)
    from trunkline.broker_watched_table w join pg_class c on c.oid = w.relation
   where $1 is null or w.relation = $1
   order by w.watch;
$$;
comment on function trunkline.broker_watched(regclass) is 'Watched tables, what is watched of them, and what is wrong.';
select trunkline._access('broker_watched(regclass)', 'reader');
