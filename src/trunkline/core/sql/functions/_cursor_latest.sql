/* Where a cursor stands: the row with the highest seq, found by index; NULLs when it never moved.
   The plan is kept by the session: it must not rest on statistics of a slot that was empty. */
create or replace function trunkline._cursor_latest(cursor_id bigint)
returns trunkline.cursor language plpgsql stable set enable_seqscan = off as $$
declare
  latest trunkline.cursor;
begin
  select c.* into latest from trunkline.cursor c where c.cursor_id = _cursor_latest.cursor_id order by c.seq desc limit 1;
  return latest;
end $$;
