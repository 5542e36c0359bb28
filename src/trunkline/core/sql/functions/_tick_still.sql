/* Let nobody number anything until this transaction ends: for the ring of ticks to move on between two ticks, so that the
   ticks of a slot are later than all that were there when it became the current one. */
create or replace function trunkline._tick_still()
returns void language plpgsql as $$
begin
  perform trunkline._lock_briefly();
  perform 1 from trunkline.sequence s order by s.sequence for no key update;
end $$;
