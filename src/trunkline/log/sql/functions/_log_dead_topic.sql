/* The topic that takes the dead letters of a topic: .dead after its name, of which 195 letters fit. */
create or replace function trunkline._log_dead_topic(topic text)
returns text language sql immutable as $$
  select left(topic, 195) || '.dead';
$$;
