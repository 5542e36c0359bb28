/* Number the entries that were committed since the last tick, and wake readers.  Any number may call it: one works.
   Returns how many entries got a position; writes nothing when there is none. */
create or replace function trunkline.tube_tick()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  numbered int := trunkline._tick_take('tube_entry');
begin
  if numbered > 0 then
    perform pg_notify('trunkline', 'tube:');
  end if;
  return numbered;
end $$;
comment on function trunkline.tube_tick() is 'Number the entries that were committed since the last tick.';
select trunkline._access('tube_tick()', 'reader');
