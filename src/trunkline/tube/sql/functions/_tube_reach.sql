/* The life of the server and the highest position that is numbered in it: in another life positions above those that it
   knew of are given out again. */
create or replace function trunkline._tube_reach(out incarnation int, out head bigint)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline.incarnation(), trunkline.tube_head();
$$;
comment on function trunkline._tube_reach() is 'The life of the server and the highest position that is numbered in it.';
select trunkline._access('_tube_reach()', 'reader');
