/* Store events of a watched table, in order.  Their topic is that of the table and kind, or the kind of each; base goes into the
   metadata of all.  A key that is longer than keys may be is told by its digest.
   Triggers call it as the owner of the table, who is a writer: whoever may call it may publish.  Rows of one key are
   locked when their triggers run, so that their events follow each other without another lock.
   Every write to a watched table pays for this: what is the same for all rows is computed once, every column is named.
   Writes: event. */
create or replace function trunkline._broker_capture(
  topic text, kind text, base jsonb, keys text[], payloads jsonb[], kinds text[] default null, metadatas jsonb[] default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  slot_ int := (select r.current from trunkline.ring r where r.ring = 'event');
  space int := trunkline._xid_space();
  metadata_ jsonb := trunkline._event_traced(base);
  topic_ text := topic || '.' || kind;
begin
  insert into trunkline.event (slot, xid_space, xid, seq, topic, key, payload, metadata, subscription, at, event_id)
  select slot_, space, pg_current_xact_id(), nextval('trunkline.event_seq'), case when u.kind is null then topic_ else _broker_capture.topic || '.' || u.kind end,
         case when octet_length(u.key) > 1000 then encode(sha256(convert_to(u.key, 'UTF8')), 'hex') else u.key end,
         u.payload, case when u.metadata is null then metadata_ else metadata_ || u.metadata end, null::bigint, clock_timestamp(), null::bigint
    from unnest(keys, payloads, kinds, metadatas) u (key, payload, kind, metadata);
end $$;
select trunkline._access('_broker_capture(text, text, jsonb, text[], jsonb[], text[], jsonb[])', 'writer');
