/* Events of topics that are also topics of the log are forwarded into it, each topic from the moment it is made. */
create trigger broker_forward_begin after insert on trunkline.log_topic
  for each row execute function trunkline._broker_forward_begin();
create trigger broker_forward_end after delete on trunkline.log_topic
  for each row execute function trunkline._broker_forward_end();
select trunkline._broker_forward_start(t.topic_id) from trunkline.log_topic t;
