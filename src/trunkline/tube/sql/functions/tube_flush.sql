/* Number everything that is committed by now, also while somebody else is about to: waits for a tick under way.
   Returns the highest position; what was committed before the call lies at or below it.  For who must not miss the last
   entry; readers that go on looking leave the numbering to tube_tick().  Locks: the row of the sequence. */
create or replace function trunkline.tube_flush()
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._isolation_check('A tick');
  perform trunkline._lock_briefly();
  perform 1 from trunkline.sequence s where s.sequence = 'tube_entry' for no key update;
  perform trunkline.tube_tick();
  return trunkline.tube_head();
end $$;
comment on function trunkline.tube_flush() is 'Number everything that is committed by now; the highest position.';
select trunkline._access('tube_flush()', 'reader');
