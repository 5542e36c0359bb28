/* Take an instance out of the parade: nobody pulls from it or waits for it any more.  Returns whether it was there. */
create or replace function trunkline.kv_instance_drop(zone text, shard text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := format('%s/%s', zone, shard);
begin
  if not exists (select from trunkline._kv_instances() i where i.instance = name) then
    return false;
  end if;
  return trunkline._kv_parade_write('instance/' || name, null);
end $$;
comment on function trunkline.kv_instance_drop(text, text) is 'Take an instance out of the parade.';
select trunkline._access('kv_instance_drop(text, text)', 'admin');
