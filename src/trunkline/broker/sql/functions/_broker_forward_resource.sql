/* The cursor that says how far the events of a topic of the log are forwarded. */
create or replace function trunkline._broker_forward_resource(topic_id int)
returns text language sql immutable as $$
  select format('broker:forward:%s', topic_id);
$$;
