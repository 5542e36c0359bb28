/* Forget a live table and its subscriptions.  TL403. */
create or replace function trunkline._live_end(relation regclass)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from pg_class c where c.oid = relation) then
    perform trunkline._broker_watch_may(relation);
  end if;
  delete from trunkline.live_subscription s where s.relation = _live_end.relation;
  delete from trunkline.live_table t where t.relation = _live_end.relation;
  perform pg_notify('trunkline', 'live:tables');
end $$;
select trunkline._access('_live_end(regclass)', 'writer');
