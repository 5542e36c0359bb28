/* Begin a life.  Only the first of all is whole from the start.  The origin is a random number: two lives shall not share one,
   wherever they are. */
create or replace function trunkline._kv_life_begin()
returns trunkline.kv_life language plpgsql as $$
declare
  here int := trunkline.incarnation();
  present trunkline.kv_life;
  before int;
begin
  perform trunkline._lock_briefly();
  select max(l.life) into before from trunkline.kv_life l;
  lock table trunkline.kv_life in share row exclusive mode;
  select l.* into present from trunkline.kv_life l
   where l.incarnation = here and l.life > coalesce(before, 0) order by l.life desc limit 1;  -- another was quicker
  if found then
    return present;
  end if;
  insert into trunkline.kv_life (origin, incarnation, xid_space, snapshot, began_after, whole)
  values (('x' || translate(left(gen_random_uuid()::text, 18), '-', ''))::bit(64)::bigint & 9223372036854775807, here, trunkline._xid_space(),
          pg_current_snapshot(), trunkline.kv_head(), not exists (select from trunkline.kv_life))
  returning * into present;
  return present;
end $$;
