/* Let nobody match until this transaction ends: for the ring of deliveries to move on between two rounds.  So the deliveries
   of a slot are later than all that were there when it became the current one: the last of them is noted. */
create or replace function trunkline._delivery_still()
returns void language plpgsql as $$
begin
  perform trunkline._lock_briefly();
  perform 1 from trunkline.cursor_key k where k.resource = 'broker:matcher' for no key update;
  update trunkline.ring_slot s set up_to = trunkline._broker_delivered()
    from trunkline.ring r where r.ring = 'delivery' and s.ring = r.ring and s.slot = r.current;
end $$;
