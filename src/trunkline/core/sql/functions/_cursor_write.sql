/* Move a cursor.  The caller holds _cursor_lock(); each row has the seq after the latest that is seen, so the highest is
   the last word.  A REPEATABLE READ snapshot that does not see the last word meets its number and is refused with 40001. */
create or replace function trunkline._cursor_write(cursor_id bigint, up_to bigint, state jsonb default null)
returns void language plpgsql as $$
begin
  insert into trunkline.cursor (slot, cursor_id, seq, up_to, state, at)
  values (trunkline._ring_current('cursor'), _cursor_write.cursor_id,
          coalesce((trunkline._cursor_latest(_cursor_write.cursor_id)).seq, 0) + 1,
          _cursor_write.up_to, _cursor_write.state, clock_timestamp())
  on conflict do nothing;
end $$;
