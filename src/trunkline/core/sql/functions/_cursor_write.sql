/* Move a cursor.  The caller holds _cursor_lock(); seq is drawn under it, so the highest seq is the last word. */
create or replace function trunkline._cursor_write(cursor_id bigint, up_to bigint, state jsonb default null)
returns void language plpgsql as $$
begin
  insert into trunkline.cursor (slot, cursor_id, seq, up_to, state, at)
  values (trunkline._ring_current('cursor'), _cursor_write.cursor_id, nextval('trunkline.cursor_seq'),
          _cursor_write.up_to, _cursor_write.state, clock_timestamp());
end $$;
