/* The key of a row r of a watched table as text: an expression. */
create or replace function trunkline._broker_watch_key(watched trunkline.broker_watched_table)
returns text language sql stable as $$
  select case when watched.key_columns = '{}' then 'null::text'
              else trunkline._hook_key(watched.key_columns,
                array(select c.type from unnest(watched.key_columns) with ordinality k (name, place)
                        join trunkline._broker_watch_columns(watched.relation) c on c.name = k.name order by k.place)) end;
$$;
select trunkline._access('_broker_watch_key(trunkline.broker_watched_table)', 'reader');
