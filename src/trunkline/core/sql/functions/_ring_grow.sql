/* Make the slots that are missing.  ATTACH without a default partition waits for no reader or writer. */
create or replace function trunkline._ring_grow(ring text, slots int)
returns void language plpgsql as $$
begin
  for number in 0 .. slots - 1 loop
    if to_regclass(format('trunkline.%I', ring || '_' || number)) is null then
      execute format('create table trunkline.%I (like trunkline.%I including all)', ring || '_' || number, ring);
      execute format('alter table trunkline.%I attach partition trunkline.%I for values in (%s)', ring, ring || '_' || number, number);
    end if;
    insert into trunkline.ring_slot (ring, slot) values (_ring_grow.ring, number)
    on conflict on constraint ring_slot_pkey do nothing;
  end loop;
end $$;
