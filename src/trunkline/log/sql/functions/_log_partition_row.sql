/* The row of a partition without locking it, or TL404. */
create or replace function trunkline._log_partition_row(topic text, partition int)
returns trunkline.log_partition language plpgsql stable as $$
declare
  found_partition trunkline.log_partition;
begin
  select p.* into found_partition from trunkline.log_topic t join trunkline.log_partition p using (topic_id)
   where t.topic = _log_partition_row.topic and p.partition = _log_partition_row.partition;
  if not found then
    perform trunkline._log_missing(topic, partition);
  end if;
  return found_partition;
end $$;
