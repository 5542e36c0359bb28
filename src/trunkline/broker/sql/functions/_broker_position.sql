/* The last delivery that a handler has committed in a lane. */
create or replace function trunkline._broker_position(group_id int, handler text, lane int)
returns bigint language sql stable as $$
  select (trunkline._cursor_latest(k.cursor_id)).up_to from trunkline.cursor_key k where k.resource = trunkline._broker_resource($1, $2, $3);
$$;
