/* Forget a tube: its row, lanes and cursors.  Its entries leave with the ring. */
create or replace function trunkline._tube_delete(tube trunkline.tube)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._tube_lanes_end(tube);
  delete from trunkline.party p where p.party = format('tube:%s', tube.tube_id);
  delete from trunkline.tube t where t.tube_id = tube.tube_id;
end $$;
select trunkline._access('_tube_delete(trunkline.tube)', 'writer');
