/* The slot that takes events now: the default of a plain INSERT. */
create or replace function trunkline._event_slot()
returns int language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (select r.current from trunkline.ring r where r.ring = 'event');
end $$;
select trunkline._access('_event_slot()', 'writer');
