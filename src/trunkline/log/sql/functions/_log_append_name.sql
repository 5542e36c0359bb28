/* The name of the function that appends to one partition; clients compose it too. */
create or replace function trunkline._log_append_name(topic_id int, partition int)
returns text language sql immutable as $$
  select format('log_append_batch_%s_%s', topic_id, partition);
$$;
