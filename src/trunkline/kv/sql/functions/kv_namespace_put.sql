/* Make a namespace, everywhere.  Returns whether it is new.  Errors: TL422. */
create or replace function trunkline.kv_namespace_put(namespace text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._kv_name_check('namespace', namespace);
  perform trunkline._reserved_refuse('namespace', namespace);
  if namespace in ('default', 'parade') then
    return false;
  end if;
  return trunkline._kv_parade_write('namespace/' || namespace, '{}');
end $$;
comment on function trunkline.kv_namespace_put(text) is 'Make a namespace, everywhere.';
select trunkline._access('kv_namespace_put(text)', 'admin');
