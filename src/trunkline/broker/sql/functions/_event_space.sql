/* _xid_space_held() for publishers, who may not read what it reads. */
create or replace function trunkline._event_space()
returns int language plpgsql immutable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return trunkline._xid_space_held();
end $$;
select trunkline._access('_event_space()', 'writer');
