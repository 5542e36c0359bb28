/* Rings of events and deliveries.  A tick's tag tells the topic.  Defaults let a plain INSERT publish.  What it may
   say is checked by the types of its columns, as _event_fault() has it: a session plans these checks once, those of
   a table with every INSERT. */
create domain trunkline.event_topic as text constraint event_topic_check
  check (value <> '' and length(value) <= 255 and value !~ '[[:cntrl:]]' or trunkline._event_refuse(value, null, null));
create domain trunkline.event_key as text constraint event_key_check
  check (value is null or octet_length(value) <= 1000 or trunkline._event_refuse('-', value, null));
create domain trunkline.event_metadata as jsonb constraint event_metadata_check
  check (value is null or jsonb_typeof(value) = 'object' or trunkline._event_refuse('-', null, value));
-- the current slot once more, where a default can read it without a query: _ring_rotate() keeps it
create sequence trunkline.event_slot minvalue 0;
select setval('trunkline.event_slot', 0);
alter table trunkline.event
  alter slot set default pg_sequence_last_value('trunkline.event_slot')::int,
  alter xid_space set default trunkline._event_space(),
  alter xid set default pg_current_xact_id(),
  alter seq set default nextval('trunkline.event_seq'),
  alter topic type trunkline.event_topic,
  alter key type trunkline.event_key,
  alter metadata type trunkline.event_metadata;
select trunkline._sequence_create('event', '_event_keep_from', rotate_every => '20 minutes', tag => 'hashtextextended(r.topic, 0)');
select trunkline._ring_create('delivery', '_delivery_may_leave', rotate_every => '20 minutes');
select trunkline._cursor_write(trunkline._cursor_ensure('broker:matcher'), 0, '{"deliveries": 0}');
select trunkline._access_insert('event', array['topic', 'key', 'payload', 'metadata', 'subscription'], 'event_seq', 'writer');
