/* The name under which a lane is owned, and with a priority the name of its cursor.  An expression: part of whoever asks. */
create or replace function trunkline._tube_resource(tube trunkline.tube, lane int, priority int default null)
returns text language sql immutable as $$
  select 'tube:' || tube.tube_id::text || ':' || tube.lanes::text || ':' || coalesce(lane::text, '') || coalesce(':' || priority::text, '');
$$;
