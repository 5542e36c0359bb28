/* Give every lane of a tube its cursors at a position. */
create or replace function trunkline._tube_lanes_begin(tube trunkline.tube, up_to bigint)
returns void language plpgsql as $$
declare
  cursor_id bigint;
begin
  for lane in 0 .. tube.lanes - 1 loop
    for priority in 0 .. 1 loop
      cursor_id := trunkline._cursor_ensure(trunkline._tube_resource(tube, lane, priority));
      perform trunkline._cursor_lock(cursor_id);
      perform trunkline._cursor_write(cursor_id, up_to);
    end loop;
  end loop;
end $$;
