/* Lock the static row: whoever moves the cursor next waits.  Read the cursor in a statement after this one.
   A REPEATABLE READ snapshot from before a rotation may miss rows that were carried and emptied since: it is
   refused with 40001, because the row of the ring has changed. */
create or replace function trunkline._cursor_lock(cursor_id bigint)
returns void language plpgsql as $$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    perform 1 from trunkline.ring r where r.ring = 'cursor' for share;
  end if;
  perform 1 from trunkline.cursor_key k where k.cursor_id = _cursor_lock.cursor_id for no key update;
end $$;
