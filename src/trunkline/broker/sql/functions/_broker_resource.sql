/* The name under which a lane of a handler is owned, and of its cursor. */
create or replace function trunkline._broker_resource(group_id int, handler text, lane int)
returns text language sql immutable as $$
  select format('broker:%s:%s:%s', group_id, lane, handler);
$$;
