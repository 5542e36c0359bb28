/* Where the archive of a partition begins: the first offset of its last run without a hole; NULL when nothing is archived. */
create or replace function trunkline._log_archived_first(part trunkline.log_partition)
returns bigint language sql stable as $$
  select greatest(a.first_offset, part.archived_from) from trunkline.log_archive a
   where a.topic_id = part.topic_id and a.partition = part.partition
     and not exists (select from trunkline.log_archive b
                      where b.topic_id = a.topic_id and b.partition = a.partition and b.last_offset = a.first_offset - 1)
   order by a.first_offset desc limit 1;
$$;
