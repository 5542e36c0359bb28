/* Give lanes back; without a list, all, and leave the tube. */
create or replace function trunkline.tube_leave(tube text, process uuid, member text default '', lanes int[] default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
begin
  perform trunkline._tube_may(present.tube, 'consume');
  perform trunkline._party_leave(format('tube:%s', present.tube_id),
    array(select trunkline._tube_resource(present, g) from generate_series(0, present.lanes - 1) g where tube_leave.lanes is null or g = any (tube_leave.lanes)),
    process, member, lanes is null);
end $$;
comment on function trunkline.tube_leave(text, uuid, text, int[]) is 'Give lanes back, or leave the tube.';
select trunkline._access('tube_leave(text, uuid, text, int[])', 'reader');
