/* Where a lane stands. */
create or replace function trunkline._tube_position(tube trunkline.tube, lane int, priority int)
returns bigint language sql stable as $$
  select (trunkline._cursor_latest(k.cursor_id)).up_to from trunkline.cursor_key k where k.resource = trunkline._tube_resource(tube, lane, priority);
$$;
