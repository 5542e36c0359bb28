/* The xid space of now: the default of a plain INSERT. */
create or replace function trunkline._event_space()
returns int language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._xid_space();
$$;
select trunkline._access('_event_space()', 'writer');
