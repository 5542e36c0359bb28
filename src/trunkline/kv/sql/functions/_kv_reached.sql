/* Where a cursor of the parade stands; NULLs when there is none. */
create or replace function trunkline._kv_reached(resource text)
returns trunkline.cursor language sql stable as $$
  select (trunkline._cursor_latest(k.cursor_id)).* from trunkline.cursor_key k where k.resource = $1;
$$;
