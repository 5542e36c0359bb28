/* The slots of a sequence that hold rows of a range of xids, as the text of a query over all of them; NULL when none
   does.  A look-up by (xid, seq) in the whole ring would probe every slot for every row. */
create or replace function trunkline._sequence_slots(sequence text, lowest xid8, highest xid8)
returns text language plpgsql stable set enable_seqscan = off as $$
declare
  part text;
  holds boolean;
  found_ text;
begin
  for part in
    select format('trunkline.%I', s.ring || '_' || s.slot) from trunkline.ring_slot s
     where s.ring = _sequence_slots.sequence and pg_relation_size(to_regclass(format('trunkline.%I', s.ring || '_' || s.slot))) > 0
  loop
    execute format('select exists (select from %s r where r.xid >= $1 and r.xid <= $2)', part) into holds using lowest, highest;
    if holds then
      found_ := concat_ws(' union all ', found_, format('select * from %s', part));
    end if;
  end loop;
  return found_;
end $$;
