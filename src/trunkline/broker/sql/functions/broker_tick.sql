/* Number the events that were committed since the last tick, and wake the matcher and the forwarder.  Nothing else: no
   condition, no log, no reader can hold it back.  Any number may call it: one works.
   Returns how many events got a position; writes nothing when there is none. */
create or replace function trunkline.broker_tick()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  numbered int := trunkline._tick_take('event');
begin
  if numbered > 0 then
    perform pg_notify('trunkline', 'broker:tick');
  end if;
  return numbered;
end $$;
comment on function trunkline.broker_tick() is 'Number the events that were committed since the last tick.';
select trunkline._access('broker_tick()', 'reader');
