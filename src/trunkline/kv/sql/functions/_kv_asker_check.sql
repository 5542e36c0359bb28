/* TL404 unless an instance belongs to the parade. */
create or replace function trunkline._kv_asker_check(instance text)
returns void language plpgsql stable as $$
begin
  if not exists (select from trunkline._kv_instances() i where i.instance = _kv_asker_check.instance) then
    perform trunkline._raise('TL404', format('the parade has no instance "%s".', left(instance, 130)), 'Make it with kv_instance_put().');
  end if;
end $$;
