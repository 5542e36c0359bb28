/* Say how long keys of a namespace live that are put with this policy, everywhere.  Keys that are there keep the time that they were given.  Returns
   whether that changed anything.  Errors: TL403 without the privilege "manage" on the namespace, TL404, TL422. */
create or replace function trunkline.kv_policy_put(namespace text, policy text, keep interval)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._kv_namespace_check(namespace);
  perform trunkline._check_may('namespace:' || namespace, 'manage');
  perform trunkline._kv_name_check('policy', policy);
  if keep is null or keep <= interval '0' then
    perform trunkline._raise('TL422', format('keys are kept for a time above 0, got %s.', coalesce(keep::text, 'NULL')));
  end if;
  return trunkline._kv_parade_write(format('policy/%s/%s', namespace, policy), jsonb_build_object('keep', keep));
end $$;
comment on function trunkline.kv_policy_put(text, text, interval) is 'Say how long keys live that are put with this policy.';
select trunkline._access('kv_policy_put(text, text, interval)', 'writer');
