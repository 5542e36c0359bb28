/* The name under which a partition of a group is owned and its cursor kept.  An expression: part of whoever asks. */
create or replace function trunkline._log_resource(topic_id int, group_name text, partition int)
returns text language sql immutable as $$
  select 'log:' || topic_id::text || ':' || coalesce(group_name, '') || ':' || partition::text;
$$;
