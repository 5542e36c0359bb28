/* Topics and groups have owners.  Those that are here already keep what all roles could do with them: they have no owner, and trunkline_writer manages them. */
drop function if exists trunkline._log_append_grant(text);
drop function if exists trunkline._grant_log_appends();
select trunkline._object_kind('topic', '{append,read,consume}', '{"append": "trunkline_writer", "read": "trunkline_reader", "consume": "trunkline_reader"}', '_log_topic_shared');
select trunkline._object_kind('topic_group', '{consume}', '{"consume": "trunkline_reader"}');
select trunkline._object_adopt('topic', t.topic) from trunkline.log_topic t;
select trunkline._object_adopt('topic_group', t.topic || '/' || g.group_name) from trunkline.log_group g join trunkline.log_topic t using (topic_id);
create trigger log_topic_object after insert or delete on trunkline.log_topic
  for each row execute function trunkline._object_follow('topic', 'r.topic');
create trigger log_group_object after insert or delete on trunkline.log_group
  for each row execute function trunkline._object_follow('topic_group', '(select t.topic from trunkline.log_topic t where t.topic_id = r.topic_id) || ''/'' || r.group_name');
select trunkline._grant_log_appends();
