/* The lowest position that a lane still needs. */
create or replace function trunkline._tube_keep_from()
returns bigint language sql stable as $$
  select min((trunkline._cursor_latest(k.cursor_id)).up_to) + 1 from trunkline.cursor_key k where k.resource like 'tube:%';
$$;
