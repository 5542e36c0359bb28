/* The party of an assigned group: its members share its partitions. */
create or replace function trunkline._log_party(topic_id int, group_name text)
returns text language sql immutable as $$
  select format('log:%s:%s', topic_id, group_name);
$$;
