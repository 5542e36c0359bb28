/* After the grants of a namespace changed: note whether each call has to look for a grant. */
create or replace function trunkline._kv_namespace_shared(namespace text)
returns void language sql as $$
  delete from trunkline.kv_guarded g where g.namespace = $1;
  insert into trunkline.kv_guarded (namespace, append, read)
  select $1, not s.append, not s.read
    from (select coalesce(bool_or(o.key = 'append'), false) as append, coalesce(bool_or(o.key = 'read'), false) as read
            from trunkline.object_kind k cross join jsonb_each_text(k.open_to) o
            join trunkline.object_grant g on g.object = 'namespace:' || $1 and g.privilege = o.key and g.role = o.value
           where k.kind = 'namespace') s
   where not (s.append and s.read);
$$;
