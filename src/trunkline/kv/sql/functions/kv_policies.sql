/* Namespaces with their owner, and the policies by which their keys expire. */
create or replace function trunkline.kv_policies()
returns table (namespace text, policy text, keep interval, owner name)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select n.namespace, p.policy, p.keep, o.owner
    from (select 'default' as namespace
          union select substr(e.key, 11) from trunkline.kv_entry e
           where e.namespace = 'parade' and e.key > 'namespace/' and e.key < 'namespace0' and e.value is not null) n
    left join (select split_part(e.key, '/', 2) as namespace, split_part(e.key, '/', 3) as policy, (e.value ->> 'keep')::interval as keep
                 from trunkline.kv_entry e
                where e.namespace = 'parade' and e.key > 'policy/' and e.key < 'policy0' and e.value is not null) p on p.namespace = n.namespace
    left join trunkline.object o on o.object = 'namespace:' || n.namespace
   order by n.namespace, p.keep;
$$;
comment on function trunkline.kv_policies() is 'Namespaces, and the policies by which their keys expire.';
select trunkline._access('kv_policies()', 'reader');
