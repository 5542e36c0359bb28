/* The functions of partitions' own, with the partition that each is for; that is NULL where the partition has left. */
create or replace function trunkline._log_appends()
returns table (name text, part trunkline.log_partition) language sql stable as $$
  select f.proname, p
    from pg_proc f left join trunkline.log_partition p on f.proname = trunkline._log_append_name(p.topic_id, p.partition)
   where f.pronamespace = 'trunkline'::regnamespace and f.proname ~ '^log_append_batch_[0-9]+_[0-9]+$';
$$;
