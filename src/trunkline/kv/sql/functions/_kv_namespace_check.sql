/* TL404 unless a namespace is there.  TL403 unless one who asks for the namespace of the parade is an admin: it tells how instances are reached. */
create or replace function trunkline._kv_namespace_check(namespace text)
returns void language plpgsql stable as $$
begin
  if namespace = 'parade' and not trunkline._administers() then
    perform trunkline._raise('TL403', 'the namespace "parade" is read by admins.', 'kv_topology() and kv_policies() tell what others may know.');
  elsif namespace in ('default', 'parade') or exists (
      select from trunkline.kv_entry e where e.namespace = 'parade' and e.key = 'namespace/' || _kv_namespace_check.namespace and e.value is not null) then
    return;
  end if;
  perform trunkline._raise('TL404', format('there is no namespace %s.', coalesce('"' || left(namespace, 80) || '"', 'NULL')), 'Make it with kv_namespace_put().  The namespace comes first: kv_get(''default'', ''k'').');
end $$;
