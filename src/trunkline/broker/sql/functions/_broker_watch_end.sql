/* Forget the watch of a table. */
create or replace function trunkline._broker_watch_end(watch int)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from trunkline.broker_watched_table w where w.watch = $1;
$$;
select trunkline._access('_broker_watch_end(int)', 'writer');
