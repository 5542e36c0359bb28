/* Topics that broker_topic() declares have owners, too. */
select trunkline._object_kind('event_topic', '{}', '{}');
select trunkline._object_adopt('event_topic', t.topic) from trunkline.broker_topic t;
create trigger broker_topic_object after insert or delete on trunkline.broker_topic
  for each row execute function trunkline._object_follow('event_topic', 'r.topic');
