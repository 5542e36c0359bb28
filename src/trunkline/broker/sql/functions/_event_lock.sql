/* Let no other transaction publish to the same key of a topic with key_order = 'locked' until this one has ended.
   A key is locked by its number.  Its bucket, one of 64 of the topic, is locked too, shared with those who publish to other keys of it.
   A call with more than 1000 keys locks the buckets alone, shared with nobody: the server has room for a few thousand locks.
   Two keys may have the same number: then one waits a little more than it must.
   Keys are locked before buckets, both in the order of their numbers, so that two batches never wait for each other.
   Errors: TL429 when the server has no room for more locks. */
create or replace function trunkline._event_lock(topics text[], keys text[])
returns void language plpgsql as $$
declare
  wanted record;
begin
  if not exists (select from trunkline.broker_topic t where t.key_order = 'locked' and t.topic = any (topics)) then
    return;
  end if;
  select array_agg(k.of_key) as of_key, array_agg(k.of_bucket) as of_bucket, array_agg(k.number) as number into wanted
    from (select distinct hashtext('trunkline.event ' || u.topic) as of_key, hashtext('trunkline.event bucket ' || u.topic) as of_bucket, hashtext(u.key) as number
            from unnest(topics, keys) u (topic, key) join trunkline.broker_topic t on t.topic = u.topic and t.key_order = 'locked'
           where u.key is not null order by 1, 3 offset 0) k;
  begin
    if cardinality(wanted.number) > 1000 then
      perform pg_advisory_xact_lock(b.high, b.low)
         from (select distinct w.high, w.number & 63 as low from unnest(wanted.of_bucket, wanted.number) w (high, number) order by 1, 2 offset 0) b;
    else
      perform pg_advisory_xact_lock(w.high, w.number) from unnest(wanted.of_key, wanted.number) w (high, number);
      perform pg_advisory_xact_lock_shared(b.high, b.low)
         from (select distinct w.high, w.number & 63 as low from unnest(wanted.of_bucket, wanted.number) w (high, number) order by 1, 2 offset 0) b;
    end if;
  exception when out_of_memory then
    raise exception using errcode = 'TL429', message = 'the server has no room for as many locks as this transaction has keys.',
      hint = 'Publish to many keys with one call of broker_publish_many(), or in several transactions; or raise max_locks_per_transaction.';
  end;
end $$;
