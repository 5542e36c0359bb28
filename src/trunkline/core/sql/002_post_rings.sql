/* Rings need the functions of this folder: they are made after them. */
select trunkline._ring_create('cursor', '_cursor_may_leave');
select trunkline._ring_create('tick', '_tick_may_leave');
