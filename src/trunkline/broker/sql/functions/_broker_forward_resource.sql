/* The cursor that says how far the events of a topic of the log are forwarded.  An expression: part of whoever asks. */
create or replace function trunkline._broker_forward_resource(topic_id int)
returns text language sql immutable as $$
  select 'broker:forward:' || topic_id::text;
$$;
