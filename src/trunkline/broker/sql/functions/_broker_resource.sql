/* The name under which a lane of a handler is owned, and of its cursor.  An expression: part of whoever asks. */
create or replace function trunkline._broker_resource(group_id int, handler text, lane int)
returns text language sql immutable as $$
  select 'broker:' || group_id::text || ':' || lane::text || ':' || handler;
$$;
