/* The xid space of now, for publishers.  Declared immutable so that a cached plan holds it: a plan lives no longer than
   its session, and a session sees one life of the server, whose number is the same before and after it is noted. */
create or replace function trunkline._event_space()
returns int language plpgsql immutable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return trunkline._xid_space();
end $$;
select trunkline._access('_event_space()', 'writer');
