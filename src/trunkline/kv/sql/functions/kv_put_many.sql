/* Put many values at once, in one transaction: an answer for each key.  Of a key that is named twice the last value counts.
   Errors: as kv_put(). */
create or replace function trunkline.kv_put_many(
  namespace text, keys text[], payloads jsonb[], policy text default null, ttl interval default null)
returns table (key text, answer text) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if cardinality(keys) is distinct from cardinality(payloads) or array_position(payloads, null) is not null then
    raise exception using errcode = 'TL422', message = format('there is one value for each key and none is NULL, got %s keys and %s values.', cardinality(keys), cardinality(payloads));
  elsif cardinality(keys) = 0 then
    return;
  end if;
  perform trunkline._kv_check(namespace, keys, payloads);
  return query select w.key, w.answer from trunkline._kv_write(namespace, keys, payloads, trunkline._kv_expires_at(namespace, policy, ttl)) w;
end $$;
comment on function trunkline.kv_put_many(text, text[], jsonb[], text, interval) is 'Put many values at once.';
select trunkline._access('kv_put_many(text, text[], jsonb[], text, interval)', 'writer');
