/* Give every lane of a tube its cursors at a position, and an epoch above all that were given for lanes of before, also of a
   dropped tube of this name: whoever worked those must not be taken for an owner of these. */
create or replace function trunkline._tube_lanes_begin(tube trunkline.tube, up_to bigint)
returns void language plpgsql as $$
declare
  highest bigint := (select max(o.epoch) from trunkline.owner o
                      where o.resource like format('tube:%s:%%', tube.tube_id) or o.resource = 'gone:tube:' || tube.tube);
begin
  insert into trunkline.owner as o (resource, epoch, since)
  select trunkline._tube_resource(tube, lane), highest, clock_timestamp() from generate_series(0, tube.lanes - 1) lane where highest is not null
  on conflict on constraint owner_pkey do update set epoch = excluded.epoch, process = null, since = excluded.since;
  for lane in 0 .. tube.lanes - 1 loop
    for priority in 0 .. 1 loop
      perform trunkline._cursor_move(trunkline._cursor_hold(trunkline._tube_resource(tube, lane, priority)), up_to);
    end loop;
  end loop;
end $$;
