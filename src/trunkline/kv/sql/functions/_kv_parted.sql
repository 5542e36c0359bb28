/* Instances that left the parade are not waited for any more: one that comes back begins anew, for what it misses may be forgotten. */
create or replace function trunkline._kv_parted(keys text[])
returns void language sql as $$
  update trunkline.kv_peer p set asked_origin = null, asked_at = null
    from trunkline.kv_entry e
   where e.namespace = 'parade' and e.key = any (keys) and e.value is null and e.key = 'instance/' || p.instance and p.asked_at is not null;
$$;
