/* Keys that live and begin with a prefix, in the order of their bytes, after after_key and up to until_key if there is one.
   Errors: TL403, TL404, TL422. */
create or replace function trunkline.kv_scan(namespace text, prefix text default '', after_key text default '', max_keys int default 1000, until_key text default null)
returns table (key text, value jsonb, version text, expires_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  now_ timestamptz := trunkline._kv_time();
  beyond text := trunkline._kv_beyond(prefix);
begin
  if prefix is null or after_key is null or max_keys is null or max_keys < 1 then
    perform trunkline._raise('TL422', format('prefix and after_key are texts and max_keys is at least 1, got %s.', coalesce(max_keys::text, 'NULL')));
  end if;
  perform trunkline._kv_namespace_check(namespace);
  if namespace = any (trunkline._kv_guarded('read')) then
    perform trunkline._check_may('namespace:' || namespace, 'read');
  end if;
  return query
    select f.key, f.shown, f.version, f.dead_at
      from (select e.key, trunkline._kv_value(e, now_) as shown, trunkline._kv_version(e) as version, e.dead_at
              from trunkline.kv_entry e
             where e.namespace = kv_scan.namespace and e.key >= prefix and e.key > after_key
               and left(e.key, length(prefix)) = prefix
               and e.key < beyond and e.key <= coalesce(until_key, beyond) order by e.key) f
     where f.shown is not null limit max_keys;
end $$;
comment on function trunkline.kv_scan(text, text, text, int, text) is 'Keys that live and begin with a prefix, in order.';
select trunkline._access('kv_scan(text, text, text, int, text)', 'reader');
