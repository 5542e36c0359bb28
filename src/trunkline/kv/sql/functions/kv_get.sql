/* The value of a key; NULL when it is not there, was deleted or has expired.  Errors: TL403 without the privilege "read" on the namespace, TL404 unknown namespace. */
create or replace function trunkline.kv_get(namespace text, key text default null)
returns jsonb language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  entry trunkline.kv_entry;
begin
  if namespace = 'parade' then
    perform trunkline._kv_namespace_check(namespace);
  elsif namespace = any (trunkline._kv_guarded('read')) then
    perform trunkline._check_may('namespace:' || namespace, 'read');
  end if;
  select e.* into entry from trunkline.kv_entry e where e.namespace = kv_get.namespace and e.key = kv_get.key;
  if not found then
    perform trunkline._kv_namespace_check(namespace);
    return null;
  end if;
  return trunkline._kv_value(entry, case when entry.dead_at is null then now() else trunkline._kv_time() end);
end $$;
comment on function trunkline.kv_get(text, text) is 'The value of a key.';
select trunkline._access('kv_get(text, text)', 'reader');
