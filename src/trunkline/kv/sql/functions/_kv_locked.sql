/* States of keys in the order of keys, and whether an open transaction holds the row of the key.  Locks the rows that are free. */
create or replace function trunkline._kv_locked(states jsonb)
returns table (state jsonb, is_locked boolean) language sql volatile as $$
  with named as materialized (
    select s.value as state, s.value ->> 'namespace' as namespace, (s.value ->> 'key') collate "C" as key from jsonb_array_elements(states) s
     order by 2, 3),
  free as materialized (
    select n.namespace, n.key from named n cross join lateral (
      select from trunkline.kv_entry e where e.namespace = n.namespace and e.key = n.key offset 0 for no key update skip locked) e)
  select n.state, e.key is not null and f.key is null
    from named n left join trunkline.kv_entry e on e.namespace = n.namespace and e.key = n.key
    left join free f on f.namespace = n.namespace and f.key = n.key
   order by n.namespace, n.key;
$$;
