/* Set a key aside that keeps failing; the epoch must be that of its lane.  A key that is parked again keeps its place.
   The attachment is 0 for a key that was touched by hand without a table.  Errors: TL404, TL422, TL423. */
create or replace function trunkline.tube_park(tube text, lane int, epoch bigint, attachment int, shard int, key text, attempts int, error text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
begin
  perform trunkline._tube_may(present.tube, 'consume');
  if attachment is null or shard is null or shard < 0 or key is null or attempts is null or error is null or shard % present.lanes is distinct from lane then
    perform trunkline._raise('TL422', format('a key is parked with attachment, shard, key, attempts and error, in the lane of its shard; got shard %s in lane %s.',
      coalesce(shard::text, 'NULL'), coalesce(lane::text, 'NULL')));
  end if;
  insert into trunkline.tube_parked as p (tube_id, attachment, shard, key, attempts, error)
  values (present.tube_id, tube_park.attachment, tube_park.shard, tube_park.key, tube_park.attempts, left(tube_park.error, 2000))
  on conflict on constraint tube_parked_pkey do update set attempts = p.attempts + excluded.attempts, error = excluded.error, parked_at = excluded.parked_at;
  perform trunkline._owner_check(trunkline._tube_resource(present, lane), epoch);
end $$;
comment on function trunkline.tube_park(text, int, bigint, int, int, text, int, text) is 'Set a key aside that keeps failing.';
select trunkline._access('tube_park(text, int, bigint, int, int, text, int, text)', 'reader');
