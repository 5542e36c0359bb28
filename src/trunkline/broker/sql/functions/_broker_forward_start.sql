/* Forward the events of a topic of the log from now on: from the last position that is numbered.  In the transaction that
   makes the topic, so that no event that is published after it has committed can be missed. */
create or replace function trunkline._broker_forward_start(topic_id int)
returns void language plpgsql as $$
begin
  perform trunkline._cursor_move(trunkline._cursor_hold(trunkline._broker_forward_resource(topic_id)), trunkline.broker_head());
end $$;
