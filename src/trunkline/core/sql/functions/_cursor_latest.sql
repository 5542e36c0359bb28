/* Where a cursor stands: the row with the highest seq, found by index; NULLs when it never moved. */
create or replace function trunkline._cursor_latest(cursor_id bigint)
returns trunkline.cursor language sql stable as $$
  select c.* from trunkline.cursor c where c.cursor_id = $1 order by c.seq desc limit 1;
$$;
