/* The current slot once more, where those who write to attached tables read it without a query: _ring_rotate() keeps it. */
create sequence trunkline.tube_entry_slot minvalue 0;
select setval('trunkline.tube_entry_slot', r.current) from trunkline.ring r where r.ring = 'tube_entry';
