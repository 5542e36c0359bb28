/* Say what is missing after a partition was not found: the topic, or the partition. */
create or replace function trunkline._log_missing(topic text, partition int)
returns void language plpgsql as $$
declare
  present trunkline.log_topic := trunkline._log_topic_row(topic);
begin
  raise exception using errcode = 'TL404', message = format('topic "%s" has partitions 0 to %s, asked for %s.', topic, present.partitions - 1, coalesce(partition::text, 'NULL')),
    detail = jsonb_build_object('topic', topic, 'partitions', present.partitions, 'partition', partition)::text;
end $$;
