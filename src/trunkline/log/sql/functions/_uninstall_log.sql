/* Drop some of the functions of partitions' own; whether there are more.  Bit by bit: each takes a place in the lock table. */
create or replace function trunkline._uninstall_log()
returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  name text;
begin
  for name in select a.name from trunkline._log_appends() a limit 1000 loop
    execute format('drop function trunkline.%I', name);
  end loop;
  return found;
end $$;
