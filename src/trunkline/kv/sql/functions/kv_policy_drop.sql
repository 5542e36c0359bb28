/* Take a policy back; keys that were put with it keep their time.  Returns whether it was there. */
create or replace function trunkline.kv_policy_drop(namespace text, policy text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := format('policy/%s/%s', namespace, policy);
begin
  if not exists (select from trunkline.kv_entry e where e.namespace = 'parade' and e.key = name and e.value is not null) then
    return false;
  end if;
  return trunkline._kv_parade_write(name, null);
end $$;
comment on function trunkline.kv_policy_drop(text, text) is 'Take a policy back.';
select trunkline._access('kv_policy_drop(text, text)', 'admin');
