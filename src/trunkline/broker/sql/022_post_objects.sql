/* Groups and webhooks have owners.  Those that are here already keep what all roles could do with them: they have no
   owner, and trunkline_writer manages them. */
select trunkline._object_kind('group', '{consume}', '{"consume": "trunkline_reader"}');
select trunkline._object_kind('webhook', '{}', '{}');
select trunkline._object_adopt('group', g.group_name) from trunkline.broker_group g;
select trunkline._object_adopt('webhook', w.webhook::text) from trunkline.broker_webhook w;
create trigger broker_group_object after insert or delete on trunkline.broker_group
  for each row execute function trunkline._object_follow('group', 'r.group_name');
create trigger broker_webhook_object after insert or delete on trunkline.broker_webhook
  for each row execute function trunkline._object_follow('webhook', 'r.webhook::text');
