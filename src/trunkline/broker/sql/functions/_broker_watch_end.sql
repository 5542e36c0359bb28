/* Forget the watch of a table.  TL403. */
create or replace function trunkline._broker_watch_end(watch int)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._broker_watch_may(w.relation) from trunkline.broker_watched_table w where w.watch = _broker_watch_end.watch;
  delete from trunkline.broker_watched_table w where w.watch = _broker_watch_end.watch;
end $$;
select trunkline._access('_broker_watch_end(int)', 'writer');
