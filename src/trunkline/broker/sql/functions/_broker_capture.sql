/* Store events of a watched table, in order.  base goes into the metadata of all.  topic is that of the events; with kinds it is
   that of the table, and each event has a kind and metadata of its own.  A key that is longer than keys may be is told by its digest.
   watch and its pass mark them as events of that table; who does not know the pass may publish, and marks nothing.  A REPEATABLE READ
   snapshot from before the table was watched does not see the pass: the write is refused with 40001.
   Triggers call it as the owner of the table, who is a writer: whoever may call it may publish.  Rows of one key are
   locked when their triggers run, so that their events follow each other without another lock.
   Topics of Trunkline itself are refused, unless they are those of the table.
   Every write to a watched table pays for this: what is the same for all rows is computed and checked once, every column is named.
   Writes: event. */
create or replace function trunkline._broker_capture(
  topic text, base jsonb, keys text[], payloads jsonb[], kinds text[] default null, metadatas jsonb[] default null, watch int default null, pass uuid default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  topic_ trunkline.event_topic := topic;
  metadata_ trunkline.event_metadata := trunkline._event_traced(base);
  watch_ int := (select m.watch from trunkline.broker_watch_mark m where m.watch = _broker_capture.watch and m.pass = _broker_capture.pass);
begin
  if watch_ is null and watch is not null and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    raise serialization_failure using message = 'the table is watched since this transaction began.', hint = 'Try the transaction again.';
  end if;
  if watch_ is null then
    perform trunkline._reserved_refuse('topic', topic || '.');
  end if;
  if kinds is null then
    insert into trunkline.event (slot, xid_space, xid, seq, topic, key, payload, metadata, subscription, at, event_id, watch)
    select (select pg_sequence_last_value('trunkline.event_slot')::int), trunkline._xid_space_held(), pg_current_xact_id(), nextval('trunkline.event_seq'),
           topic_, case when octet_length(u.key) > 1000 then encode(sha256(convert_to(u.key, 'UTF8')), 'hex') else u.key end,
           u.payload, metadata_, null::bigint, clock_timestamp(), null::bigint, watch_
      from unnest(keys, payloads) u (key, payload);
  else
    insert into trunkline.event (slot, xid_space, xid, seq, topic, key, payload, metadata, subscription, at, event_id, watch)
    select (select pg_sequence_last_value('trunkline.event_slot')::int), trunkline._xid_space_held(), pg_current_xact_id(), nextval('trunkline.event_seq'),
           topic_ || '.' || u.kind, case when octet_length(u.key) > 1000 then encode(sha256(convert_to(u.key, 'UTF8')), 'hex') else u.key end,
           u.payload, metadata_ || coalesce(u.metadata, '{}'), null::bigint, clock_timestamp(), null::bigint, watch_
      from unnest(keys, payloads, kinds, metadatas) u (key, payload, kind, metadata);
  end if;
end $$;
select trunkline._access('_broker_capture(text, jsonb, text[], jsonb[], text[], jsonb[], int, uuid)', 'writer');
