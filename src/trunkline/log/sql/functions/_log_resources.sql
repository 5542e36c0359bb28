/* The resources of a group in the order of partitions; all, or some. */
create or replace function trunkline._log_resources(topic_id int, group_name text, partitions int[] default null)
returns text[] language sql stable as $$
  select coalesce(array_agg(trunkline._log_resource(p.topic_id, $2, p.partition) order by p.partition), '{}')
    from trunkline.log_partition p where p.topic_id = $1 and ($3 is null or p.partition = any ($3));
$$;
