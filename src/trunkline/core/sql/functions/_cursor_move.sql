/* Move a cursor from where it was found after its lock was taken; where it stands then.  Each row has the seq after the one
   before, so the highest is the last word: a cursor is moved twice from what the first move returned.
   A REPEATABLE READ snapshot that does not see the last word meets its number and is refused with 40001. */
create or replace function trunkline._cursor_move(held trunkline.cursor, up_to bigint, state jsonb default null)
returns trunkline.cursor language plpgsql as $$
declare
  moved trunkline.cursor;
begin
  insert into trunkline.cursor as c (slot, cursor_id, seq, up_to, state, at)
  values ((select r.current from trunkline.ring r where r.ring = 'cursor'), held.cursor_id, coalesce(held.seq, 0) + 1,
          _cursor_move.up_to, _cursor_move.state, clock_timestamp())
  on conflict do nothing
  returning c.* into strict moved;
  return moved;
end $$;
