/* A slot of cursors may leave when no cursor has its last word there. */
create or replace function trunkline._cursor_may_leave(ring text, slot int)
returns boolean language sql stable as $$
  select not exists (
    select from trunkline.cursor_key k where (trunkline._cursor_latest(k.cursor_id)).slot = _cursor_may_leave.slot);
$$;
