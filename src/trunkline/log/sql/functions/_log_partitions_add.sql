/* Give a topic its partitions up to a number. */
create or replace function trunkline._log_partitions_add(topic_id int, partitions int)
returns void language plpgsql as $$
declare
  number int;
  part trunkline.log_partition;
begin
  for number in select g from generate_series(0, partitions - 1) g
                 where not exists (select from trunkline.log_partition p where p.topic_id = _log_partitions_add.topic_id and p.partition = g) loop
    insert into trunkline.log_partition (topic_id, partition, segment_id, segment_first, segment_at)
    values (_log_partitions_add.topic_id, number, trunkline._log_segment_create(_log_partitions_add.topic_id, number, 1), 1, clock_timestamp())
    returning * into part;
    perform trunkline._log_append_write(part);
  end loop;
end $$;
