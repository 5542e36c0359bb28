/* Number the rows of a ring after their commit.  The ring has columns slot, xid_space, xid, seq and an index
   that starts with (xid, seq).  keep_from names a function () returns bigint: the lowest position that a
   reader still needs, NULL when no reader needs any.  tag is an expression over the row r (a bigint) that goes
   into the tick, so that readers of a part need not look at every row. */
create or replace function trunkline._sequence_create(
  sequence text, keep_from text, slots int default 16, rotate_every interval default '10 minutes', tag text default 'null')
returns void language plpgsql as $$
begin
  insert into trunkline.sequence (sequence, source, keep_from, tag)
  values (_sequence_create.sequence, _sequence_create.sequence, _sequence_create.keep_from, _sequence_create.tag);
  perform trunkline._ring_create(sequence, '_sequence_may_leave', slots, rotate_every);
  perform trunkline._sequence_prepare(sequence);
end $$;
