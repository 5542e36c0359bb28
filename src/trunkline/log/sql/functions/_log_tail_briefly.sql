/* _log_tail() for whoever looks at many partitions: the segment is let go at once, not at the end of the transaction, for
   the server has room for only so many locks, and all share it.  What was read stays when the block is rolled back. */
create or replace function trunkline._log_tail_briefly(part trunkline.log_partition)
returns bigint language plpgsql as $$
declare
  tail bigint;
begin
  tail := trunkline._log_tail(part);
  raise sqlstate 'LETGO';
exception when sqlstate 'LETGO' then
  return tail;
end $$;
