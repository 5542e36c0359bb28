/* Number the changes that were committed since the last tick, and wake those who wait for them.  Any number may call it: one
   works.  Returns how many changes got a position; writes nothing when there is none.  A life begins before its first tick. */
create or replace function trunkline.kv_tick()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  numbered int;
begin
  if not exists (select from trunkline.kv_life) then
    return 0;  -- nothing was ever written
  end if;
  perform trunkline._kv_start();
  numbered := trunkline._tick_take('kv_change');
  if numbered > 0 then
    perform pg_notify('trunkline', 'kv:');
  end if;
  return numbered;
end $$;
comment on function trunkline.kv_tick() is 'Number the changes that were committed since the last tick.';
select trunkline._access('kv_tick()', 'reader');
