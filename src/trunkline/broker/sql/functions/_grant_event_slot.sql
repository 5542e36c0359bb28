/* Let those who may insert events see the slot that takes them: the default of a plain INSERT reads it. */
create or replace function trunkline._grant_event_slot()
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  kind text;
begin
  for kind in select r.rolname from pg_roles r where r.rolname in ('trunkline_writer', 'trunkline_admin') loop
    execute format('grant select on sequence trunkline.event_slot to %I', kind);
  end loop;
end $$;
