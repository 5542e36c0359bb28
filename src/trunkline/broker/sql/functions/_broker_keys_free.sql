/* Something of these keys was settled: an event that is parked and the oldest of its key becomes due.
   Returns the keys of which nothing is set aside any more. */
create or replace function trunkline._broker_keys_free(group_id int, handler text, keys text[])
returns text[] language plpgsql set enable_seqscan = off as $$
begin
  update trunkline.broker_retry r set status = 'waiting', due_at = clock_timestamp(), batch = r.retry
    from unnest(keys) k (key)
    cross join lateral (
      select o.retry from trunkline.broker_retry o
       where o.group_id = _broker_keys_free.group_id and o.handler = _broker_keys_free.handler and o.key = k.key
       order by o.delivery limit 1) oldest
   where r.retry = oldest.retry and r.status = 'parked';
  return array(
    select distinct k.key from unnest(keys) k (key)
     where k.key is not null and not exists (
       select from trunkline.broker_retry o
        where o.group_id = _broker_keys_free.group_id and o.handler = _broker_keys_free.handler and o.key = k.key));
end $$;
