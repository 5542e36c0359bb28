/* Take a policy back; keys that were put with it keep their time.  Returns whether it was there.
   Errors: TL403 without the privilege "manage" on the namespace, TL404. */
create or replace function trunkline.kv_policy_drop(namespace text, policy text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := format('policy/%s/%s', namespace, policy);
begin
  perform trunkline._kv_namespace_check(namespace);
  perform trunkline._check_may('namespace:' || namespace, 'manage');
  if not exists (select from trunkline.kv_entry e where e.namespace = 'parade' and e.key = name and e.value is not null) then
    return false;
  end if;
  return trunkline._kv_parade_write(name, null);
end $$;
comment on function trunkline.kv_policy_drop(text, text) is 'Take a policy back.';
select trunkline._access('kv_policy_drop(text, text)', 'writer');
