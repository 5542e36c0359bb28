/* Keys that live, of those that are named, with the version for a compare-and-set and when they expire.  Errors: TL403, TL404. */
create or replace function trunkline.kv_get_many(namespace text, keys text[])
returns table (key text, value jsonb, version text, expires_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  now_ timestamptz := trunkline._kv_time();
begin
  perform trunkline._kv_namespace_check(namespace);
  if namespace = any (trunkline._kv_guarded('read')) then
    perform trunkline._check_may('namespace:' || namespace, 'read');
  end if;
  return query
    select f.key, f.shown, f.version, f.dead_at
      from (select e.key, trunkline._kv_value(e, now_) as shown, trunkline._kv_version(e) as version, e.dead_at
              from trunkline.kv_entry e where e.namespace = kv_get_many.namespace and e.key = any (keys)) f
     where f.shown is not null order by f.key;
end $$;
comment on function trunkline.kv_get_many(text, text[]) is 'Keys that live, of those that are named.';
select trunkline._access('kv_get_many(text, text[])', 'reader');
