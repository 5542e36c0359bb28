/* Make or change the watch of a table.  Nothing of it is ever run: the trigger function has its own copy.  TL403. */
create or replace function trunkline._broker_watch_put(wanted trunkline.broker_watched_table)
returns trunkline.broker_watched_table language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  stored trunkline.broker_watched_table;
begin
  perform trunkline._broker_watch_may(wanted.relation);
  insert into trunkline.broker_watched_table as w (relation, relation_name, topic, operations, columns, key_columns, condition)
  values (wanted.relation, wanted.relation_name, wanted.topic, wanted.operations, wanted.columns, wanted.key_columns, wanted.condition)
  on conflict on constraint broker_watched_table_relation do update
     set relation_name = excluded.relation_name, topic = excluded.topic, operations = excluded.operations, columns = excluded.columns,
         key_columns = excluded.key_columns, condition = excluded.condition, fault = null
  returning w.* into stored;
  return stored;
end $$;
select trunkline._access('_broker_watch_put(trunkline.broker_watched_table)', 'writer');
