/* The part of the archive that holds an offset; a row of NULLs when none does, or when it was trimmed. */
create or replace function trunkline._log_archived(part trunkline.log_partition, log_offset bigint)
returns trunkline.log_archive language sql stable as $$
  select a from trunkline.log_archive a
   where a.topic_id = part.topic_id and a.partition = part.partition and a.first_offset <= log_offset
     and a.last_offset >= log_offset and part.archived_from <= log_offset
   order by a.first_offset desc limit 1;
$$;
