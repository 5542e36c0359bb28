/* Forget a tube: its row, lanes and cursors.  Its entries leave with the ring.  TL404 when it is gone, TL409 when a table was attached meanwhile. */
create or replace function trunkline._tube_delete(tube trunkline.tube)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube;
begin
  perform trunkline._tube_may(t.tube, 'manage') from trunkline.tube t where t.tube_id = (_tube_delete.tube).tube_id;
  perform trunkline._lock_briefly();
  select t.* into present from trunkline.tube t where t.tube_id = tube.tube_id for update;
  if not found then
    perform trunkline._raise('TL404', format('tube "%s" was dropped meanwhile.', tube.tube));
  end if;
  if exists (select from trunkline.tube_table a join pg_trigger g on g.tgname = format('trunkline_tube_%s_insert', a.attachment)
              where a.tube_id = tube.tube_id) then
    perform trunkline._raise('TL409', format('a table was attached to tube "%s" meanwhile.', tube.tube), 'Drop it again.');
  end if;
  perform trunkline._tube_lanes_end(present);
  -- the highest epoch is remembered for a day, for a tube of the same name: see _tube_lanes_begin()
  with gone as (delete from trunkline.owner o where o.resource like format('tube:%s:%%', tube.tube_id) returning o.epoch)
  insert into trunkline.owner as o (resource, epoch, since)
  select 'gone:tube:' || present.tube, max(g.epoch), clock_timestamp() from gone g having count(*) > 0
  on conflict on constraint owner_pkey do update set epoch = greatest(o.epoch, excluded.epoch), since = excluded.since;
  delete from trunkline.owner o where starts_with(o.resource, 'gone:') and o.since < clock_timestamp() - interval '1 day';
  delete from trunkline.party p where p.party = format('tube:%s', tube.tube_id);
  delete from trunkline.tube t where t.tube_id = tube.tube_id;
end $$;
select trunkline._access('_tube_delete(trunkline.tube)', 'writer');
