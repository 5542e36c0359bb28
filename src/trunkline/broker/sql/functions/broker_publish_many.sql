/* Publish events in the transaction of the caller, all or none, in the order of the arrays.  An array that is NULL
   stands for NULLs; broker_publish() says what each is for.  Returns the ids in the order of the batch.
   Writes: event, event_due.  Locks: in topics whose key_order is locked the keys, in an order that all batches share; of more than 1000
   keys their buckets, of which a topic has 64, so that it waits for nearly all who publish to that topic, and they for it:
   publish such a batch before anything else to that topic, or two transactions that do otherwise may end in a deadlock (40P01).
   Errors: TL404 no such subscription, TL413, TL422; the message names the place in the batch.  TL429 no room for more locks, or a quota is used up. */
create or replace function trunkline.broker_publish_many(
  topics text[], payloads jsonb[], keys text[] default null, metadatas jsonb[] default null,
  deliver_ats timestamptz[] default null, subscriptions bigint[] default null)
returns bigint[] language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  n int := cardinality(topics);
  now_ timestamptz := clock_timestamp();
  waits boolean := exists (select from unnest(deliver_ats) d (at) where d.at > now_);
  ids bigint[];
begin
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;
  perform trunkline._event_check(topics, payloads, keys, metadatas, deliver_ats, subscriptions);
  if exists (select from trunkline.quota) then
    perform trunkline._quota_take(n, (select sum(pg_column_size(u.payload) + coalesce(pg_column_size(u.metadata), 0) + coalesce(octet_length(u.key), 0)) from unnest(payloads, metadatas, keys) u (payload, metadata, key))::bigint);
  end if;
  perform trunkline._event_lock(topics, keys);
  ids := array(select nextval('trunkline.event_seq') from generate_series(1, n));
  insert into trunkline.event (slot, xid_space, xid, seq, topic, key, payload, metadata, subscription)
  select r.current, trunkline._event_space(), pg_current_xact_id(), u.id, u.topic, u.key, u.payload, trunkline._event_traced(u.metadata), u.subscription
    from trunkline.ring r, unnest(ids, topics, payloads, keys, metadatas, subscriptions, deliver_ats)
           u (id, topic, payload, key, metadata, subscription, deliver_at)
   where r.ring = 'event' and (not waits or u.deliver_at is null or u.deliver_at <= now_);
  if waits then
    insert into trunkline.event_due (event_id, deliver_at, topic, key, payload, metadata, subscription)
    select u.id, u.deliver_at, u.topic, u.key, u.payload, trunkline._event_traced(u.metadata), u.subscription
      from unnest(ids, topics, payloads, keys, metadatas, subscriptions, deliver_ats)
             u (id, topic, payload, key, metadata, subscription, deliver_at)
     where u.deliver_at > now_;
  end if;
  return ids;
end $$;
comment on function trunkline.broker_publish_many(text[], jsonb[], text[], jsonb[], timestamptz[], bigint[]) is
  'Publish events in the transaction of the caller, in order.';
select trunkline._access('broker_publish_many(text[], jsonb[], text[], jsonb[], timestamptz[], bigint[])', 'writer');
