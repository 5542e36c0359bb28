/* Move a cursor from wherever it stands.  The caller holds its static row. */
create or replace function trunkline._cursor_write(cursor_id bigint, up_to bigint, state jsonb default null)
returns void language plpgsql as $$
declare
  held trunkline.cursor := trunkline._cursor_latest(cursor_id);
begin
  held.cursor_id := _cursor_write.cursor_id;
  perform trunkline._cursor_move(held, up_to, state);
end $$;
