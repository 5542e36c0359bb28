/* Rings of events and deliveries.  A tick's tag tells the topic.  Defaults let a plain INSERT publish. */
alter table trunkline.event
  alter slot set default trunkline._event_slot(),
  alter xid_space set default trunkline._event_space(),
  alter xid set default pg_current_xact_id(),
  alter seq set default nextval('trunkline.event_seq'),
  -- what _event_fault() says, in words of the server: every INSERT plans its checks anew, and a function would be parsed each time
  add constraint event_check check (case when topic <> '' and length(topic) <= 255 and topic !~ '[[:cntrl:]]' and coalesce(octet_length(key) <= 1000, true)
    and coalesce(jsonb_typeof(metadata) = 'object', true) then true else trunkline._event_refuse(topic, key, metadata) end);
select trunkline._sequence_create('event', '_event_keep_from', rotate_every => '20 minutes', tag => 'hashtextextended(r.topic, 0)');
select trunkline._ring_create('delivery', '_delivery_may_leave', rotate_every => '20 minutes');
select trunkline._cursor_write(trunkline._cursor_ensure('broker:matcher'), 0, '{"deliveries": 0}');
select trunkline._access_insert('event', array['topic', 'key', 'payload', 'metadata', 'subscription'], 'event_seq', 'writer');
