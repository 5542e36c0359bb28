/* The name under which a lane is owned, and with a priority the name of its cursor. */
create or replace function trunkline._tube_resource(tube trunkline.tube, lane int, priority int default null)
returns text language sql immutable as $$
  select format('tube:%s:%s:%s', tube.tube_id, tube.lanes, lane) || coalesce(':' || priority, '');
$$;
