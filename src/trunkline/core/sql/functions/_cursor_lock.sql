/* Lock the static row: whoever moves the cursor next waits.  Read the cursor in a statement after this one. */
create or replace function trunkline._cursor_lock(cursor_id bigint)
returns void language sql as $$
  select from trunkline.cursor_key k where k.cursor_id = $1 for no key update;
$$;
