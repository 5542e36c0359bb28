/* Watched tables, what is watched of them, and what is wrong: fault is NULL when every write is seen as it was asked for. */
create or replace function trunkline.broker_watched(relation regclass default null)
returns table (relation regclass, topic text, operations text[], columns text[], key_columns text[], condition text, parts int, fault text, watched_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select w.relation, w.topic, w.operations, w.columns, w.key_columns, w.condition,
         (select count(*)::int - 1 from trunkline._hook_tree(w.relation) r), coalesce(w.fault, trunkline._broker_watch_fault(w)), w.watched_at
    from trunkline.broker_watched_table w join pg_class c on c.oid = w.relation
   where $1 is null or w.relation = $1
   order by w.watch;
$$;
comment on function trunkline.broker_watched(regclass) is 'Watched tables, what is watched of them, and what is wrong.';
select trunkline._access('broker_watched(regclass)', 'reader');
