/* Put a value under a key.  Answers INSERT when the key did not live before, UPDATE when it did, CONFLICT when if_version is not the version
   that is there (an empty one: the key must not live) or a given stamp is older than what is there; then nothing was changed.
   It expires by a policy of its namespace, or after a ttl of its own, or never.  Part of your transaction; other zones get it
   after the commit.  Errors: TL403, TL404, TL409 the clock is too far ahead, TL413, TL422. */
create or replace function trunkline.kv_put(
  namespace text, key text, value jsonb default null, policy text default null, ttl interval default null, if_version text default null, stamp bigint default null)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if value is null then
    perform trunkline._raise('TL422', 'a value is JSON, got NULL.', 'The namespace comes first: kv_put(''default'', ''k'', ''1'').  To remove a key call kv_delete(); the JSON null is ''null''.');
  end if;
  perform trunkline._kv_check(namespace, array[key], array[value]);
  return (select w.answer from trunkline._kv_write(namespace, array[key], array[value], trunkline._kv_expires_at(namespace, policy, ttl), if_version, stamp) w);
end $$;
comment on function trunkline.kv_put(text, text, jsonb, text, interval, text, bigint) is 'Put a value under a key: INSERT, UPDATE or CONFLICT.';
select trunkline._access('kv_put(text, text, jsonb, text, interval, text, bigint)', 'writer');
