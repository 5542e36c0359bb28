/* Changes of other zones that wait here.  reason clock: the stamp is too far in the future.  reason lock: an open transaction holds the key.  Without the privilege "read" on a namespace its keys are left out. */
create or replace function trunkline.kv_held()
returns table (namespace text, key text, stamped_for timestamptz, held_at timestamptz, reason text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select h.namespace, h.key, to_timestamp(h.stamp / 1000000.0), h.held_at, h.reason from trunkline.kv_held h
   where trunkline._administers() or h.namespace <> all (trunkline._kv_guarded('read'))
      or trunkline._may('namespace:' || h.namespace, '{read}', trunkline._caller()) order by h.stamp, 1, 2;
$$;
comment on function trunkline.kv_held() is 'Changes of other zones that wait here for their time or for a lock.';
select trunkline._access('kv_held()', 'reader');
