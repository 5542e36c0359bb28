/* The last offset of a partition that is archived; NULL when nothing is. */
create or replace function trunkline._log_archived_last(part trunkline.log_partition)
returns bigint language sql stable as $$
  select a.last_offset from trunkline.log_archive a
   where a.topic_id = part.topic_id and a.partition = part.partition order by a.last_offset desc limit 1;
$$;
