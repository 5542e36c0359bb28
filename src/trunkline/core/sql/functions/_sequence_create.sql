/* Number the rows of a ring after their commit.  The ring has columns slot, xid_space, xid, seq and an index
   that starts with (xid, seq).  keep_from names a function () returns bigint: the lowest position that a
   reader still needs, NULL when no reader needs any. */
create or replace function trunkline._sequence_create(
  sequence text, keep_from text, slots int default 16, rotate_every interval default '10 minutes')
returns void language plpgsql as $$
begin
  insert into trunkline.sequence (sequence, source, keep_from)
  values (_sequence_create.sequence, _sequence_create.sequence, _sequence_create.keep_from);
  perform trunkline._ring_create(sequence, '_sequence_may_leave', slots, rotate_every);
end $$;
