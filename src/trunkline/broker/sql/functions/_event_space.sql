/* The xid space of now: the default of a plain INSERT. */
create or replace function trunkline._event_space()
returns int language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return trunkline._xid_space();
end $$;
select trunkline._access('_event_space()', 'writer');
