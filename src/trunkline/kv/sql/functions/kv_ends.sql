/* Where following changes may begin and where it ends at this moment, and the life of the server: what a reader plans with.
   first_one is last_one + 1 where there is nothing. */
create or replace function trunkline.kv_ends()
returns table (first_one bigint, last_one bigint, incarnation int)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  incarnation := trunkline.incarnation();
  last_one := trunkline.kv_head();
  first_one := least(greatest(trunkline._kv_keep_from(), 1), last_one + 1);
  return next;
end $$;
comment on function trunkline.kv_ends() is 'Where following changes may begin and where it ends.';
select trunkline._access('kv_ends()', 'reader');
