/* Let no other transaction publish to the same key of a topic with key_order = 'locked' until this one has ended.
   Keys are locked in the order of their numbers, so that two batches never wait for each other.  Two keys may share a
   number: then one waits a little more than it must. */
create or replace function trunkline._event_lock(topics text[], keys text[])
returns void language plpgsql as $$
begin
  if not exists (select from trunkline.broker_topic t where t.key_order = 'locked' and t.topic = any (topics)) then
    return;
  end if;
  perform pg_advisory_xact_lock(k.high, k.low)
     from (select distinct hashtext('trunkline.event ' || u.topic) as high, hashtext(u.key) as low
             from unnest(topics, keys) u (topic, key) join trunkline.broker_topic t on t.topic = u.topic and t.key_order = 'locked'
            where u.key is not null order by 1, 2 offset 0) k;
end $$;
