/* Publish one event in the transaction of the caller: it is part of what that commits, and gone when that is rolled
   back.  key: events of one key are handled in order.  deliver_at: not before that time; one that has passed means
   now.  subscription: for that one alone, whatever its condition.  The setting trunkline.traceparent goes into
   metadata that has no traceparent.  Returns the id of the event.
   Writes: event or event_due.  Locks: the key, in topics whose key_order is locked.
   Errors: TL404 no such subscription, TL413, TL422, TL429 no room for more locks, or a quota is used up. */
create or replace function trunkline.broker_publish(
  topic text, payload jsonb, key text default null, metadata jsonb default null,
  deliver_at timestamptz default null, subscription bigint default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  id bigint;
  limited boolean;
begin
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;
  -- the usual case in one statement: each more would cost as much as the INSERT itself, which checks its values
  if payload is not null and pg_column_size(payload) <= 65536 and deliver_at is null and subscription is null
     and not starts_with(topic, 'trunkline.') then
    insert into trunkline.event (slot, xid_space, xid, seq, topic, key, payload, metadata)
    select pg_sequence_last_value('trunkline.event_slot')::int, trunkline._event_space(), pg_current_xact_id(), nextval('trunkline.event_seq'),
           broker_publish.topic, broker_publish.key, broker_publish.payload, trunkline._event_traced(broker_publish.metadata)
     where not exists (select from trunkline.broker_topic t where t.topic = broker_publish.topic and t.key_order = 'locked')
    returning seq, exists (select from trunkline.quota) into id, limited;
    if found then
      if limited then perform trunkline._quota_take(1, pg_column_size(payload) + coalesce(pg_column_size(metadata), 0) + coalesce(octet_length(key), 0)); end if;
      return id;
    end if;
  end if;
  return (trunkline.broker_publish_many(array[topic], array[payload], array[key], array[metadata], array[deliver_at], array[subscription]))[1];
end $$;
comment on function trunkline.broker_publish(text, jsonb, text, jsonb, timestamptz, bigint) is 'Publish one event in the transaction of the caller.';
select trunkline._access('broker_publish(text, jsonb, text, jsonb, timestamptz, bigint)', 'writer');
