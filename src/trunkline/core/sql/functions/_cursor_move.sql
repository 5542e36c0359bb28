/* Move a cursor from where it was found after its lock was taken; where it stands then.  Each row has the seq after the one
   before, so the highest is the last word: a cursor is moved twice from what the first move returned.
   A REPEATABLE READ snapshot that does not see the last word meets its number and is refused with 40001.  The last word may stand in
   a slot that was left while its transaction lasted: such a snapshot writes to those too, and what it says there is the same. */
create or replace function trunkline._cursor_move(held trunkline.cursor, up_to bigint, state jsonb default null)
returns trunkline.cursor language plpgsql as $$
declare
  moved trunkline.cursor;
begin
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;
  insert into trunkline.cursor as c (slot, cursor_id, seq, up_to, state, at)
  values ((select r.current from trunkline.ring r where r.ring = 'cursor'), held.cursor_id, coalesce(held.seq, 0) + 1,
          _cursor_move.up_to, _cursor_move.state, clock_timestamp())
  on conflict do nothing
  returning c.* into strict moved;
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    insert into trunkline.cursor (slot, cursor_id, seq, up_to, state, at)
    select s.slot, moved.cursor_id, moved.seq, moved.up_to, moved.state, moved.at
      from trunkline.ring_slot s where s.ring = 'cursor' and s.left_at is not null
    on conflict do nothing;
  end if;
  return moved;
end $$;
