/* TL404 unless an instance belongs to the parade. */
create or replace function trunkline._kv_asker_check(instance text)
returns void language plpgsql stable as $$
begin
  if not exists (select from trunkline._kv_instances() i where i.instance = _kv_asker_check.instance) then
    raise exception using errcode = 'TL404', message = format('the parade has no instance "%s".', left(instance, 130)),
      hint = 'Make it with kv_instance_put().';
  end if;
end $$;
