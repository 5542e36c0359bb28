/* Turn a table partitioned by list (slot) into a ring: its slots, its settings, its rule for leaving.
   may_leave names a function (ring text, slot int) returns boolean in this schema. */
create or replace function trunkline._ring_create(
  ring text, may_leave text, slots int default 16, rotate_every interval default '10 minutes')
returns void language plpgsql as $$
begin
  insert into trunkline.config (name, value, default_value, type, minimum, description) values
    (format('ring.%s.slots', ring), slots, slots, 'int', 3, format('slots of the ring "%s"; more are made while it runs', ring)),
    (format('ring.%s.rotate_every', ring), rotate_every, rotate_every, 'interval', '1 millisecond',
     format('how long a slot of the ring "%s" takes rows', ring));
  insert into trunkline.ring (ring, may_leave) values (_ring_create.ring, _ring_create.may_leave);
  perform trunkline._ring_grow(_ring_create.ring, slots);
end $$;
