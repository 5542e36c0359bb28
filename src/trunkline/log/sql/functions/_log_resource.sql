/* The name under which a partition of a group is owned and its cursor kept. */
create or replace function trunkline._log_resource(topic_id int, group_name text, partition int)
returns text language sql immutable as $$
  select format('log:%s:%s:%s', topic_id, group_name, partition);
$$;
