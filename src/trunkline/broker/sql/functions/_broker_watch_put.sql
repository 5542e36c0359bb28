/* Make or change the watch of a table.  Nothing of it is ever run: the trigger function has its own copy.  The owner of the table gets the pass.  TL403. */
create or replace function trunkline._broker_watch_put(wanted trunkline.broker_watched_table)
returns trunkline.broker_watched_table language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  stored trunkline.broker_watched_table;
  renamed int;
begin
  perform trunkline._broker_watch_may(wanted.relation);
  -- another watched table had this name, and has another one since: its object is called by its present name
  update trunkline.broker_watched_table w set relation_name = format('watch %s', w.watch)
   where w.relation_name = wanted.relation_name and w.relation <> wanted.relation returning w.watch into renamed;
  insert into trunkline.broker_watched_table as w (relation, relation_name, topic, operations, columns, key_columns, condition)
  values (wanted.relation, wanted.relation_name, wanted.topic, wanted.operations, wanted.columns, wanted.key_columns, wanted.condition)
  on conflict on constraint broker_watched_table_relation do update
     set relation_name = excluded.relation_name, topic = excluded.topic, operations = excluded.operations, columns = excluded.columns,
         key_columns = excluded.key_columns, condition = excluded.condition, fault = null
  returning w.* into stored;
  update trunkline.broker_watched_table w set relation_name = n.present
    from (select c.oid, format('%s.%I', c.relnamespace::regnamespace, c.relname) as present from pg_class c) n
   where w.watch = renamed and n.oid = w.relation and not exists (select from trunkline.broker_watched_table o where o.relation_name = n.present);
  insert into trunkline.broker_watch_mark as m (watch, role, topics)
  select stored.watch, pg_get_userbyid(c.relowner), array[stored.topic] from pg_class c where c.oid = stored.relation
  on conflict on constraint broker_watch_mark_pkey do update
     set role = excluded.role, topics = m.topics || array(select t from unnest(excluded.topics) t where t <> all (m.topics))
   where m.role <> excluded.role or not m.topics @> excluded.topics;
  return stored;
end $$;
select trunkline._access('_broker_watch_put(trunkline.broker_watched_table)', 'writer');
