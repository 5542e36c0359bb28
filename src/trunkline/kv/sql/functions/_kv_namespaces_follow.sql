/* List namespaces that came into being, here or in another zone, as objects.  The owner is the role that acts: for those of other zones, the role of the service that
   replicates.  Owners and grants are of this zone. */
create or replace function trunkline._kv_namespaces_follow(keys text[])
returns void language sql as $$
  select trunkline._object_put('namespace', substr(e.key, 11), trunkline._caller()), trunkline._kv_namespace_shared(substr(e.key, 11))
    from trunkline.kv_entry e where e.namespace = 'parade' and e.key = any (keys) and starts_with(e.key, 'namespace/') and e.value is not null
     and not exists (select from trunkline.object o where o.object = 'namespace:' || substr(e.key, 11));
$$;
