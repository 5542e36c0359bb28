/* Move a cursor.  The caller holds _cursor_lock(); seq is drawn under it, so the highest seq is the last word. */
create or replace function trunkline._cursor_write(cursor_id bigint, up_to bigint, state jsonb default null)
returns void language sql as $$
  insert into trunkline.cursor (slot, cursor_id, seq, up_to, state, at)
  values (trunkline._ring_current('cursor'), $1, nextval('trunkline.cursor_seq'), $2, $3, clock_timestamp());
$$;
