/* Rings need the functions of this folder: they are made after them. */
-- few slots: whoever looks at a cursor locks them all, and beyond 16 tables and indexes a lock is no longer cheap
select trunkline._ring_create('cursor', '_cursor_may_leave', 4);
select trunkline._ring_create('tick', '_tick_may_leave');
