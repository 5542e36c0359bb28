/* Set the event at a position aside, which is too large to be a message of a topic of the log, and say so. */
create or replace function trunkline._broker_forward_aside(present trunkline.log_topic, at_position bigint, largest bigint)
returns void language plpgsql as $$
declare
  made trunkline.broker_forward_aside;
begin
  insert into trunkline.broker_forward_aside (event_id, topic_id, event_position, key, payload, metadata, at, error)
  select e.event_id, present.topic_id, e.up_to, e.key, e.payload, e.metadata, e.at,
         format('as JSON it has %s, and what is forwarded has up to %s.', coalesce(b.bytes || ' bytes', 'more bytes than Postgres can write'), largest)
    from trunkline.broker_events(at_position, 1, array[present.topic], at_position) e
   cross join lateral (select trunkline._event_text_bytes(e.payload, e.metadata) as bytes offset 0) b
  returning * into made;
  raise warning 'event % of topic "%" is not forwarded but set aside: %', made.event_id, present.topic, made.error
    using hint = 'broker_unforwarded() lists such events.';
end $$;
