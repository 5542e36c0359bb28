/* Move staged record batches into the log, in the order of the numbers and of the ordinals inside, and drop the
   staging tables.  `messages` are the counts that the tasks reported: what differs was lost on the way and is a TL410.  Partitions are locked in order, so that two drivers never
   deadlock.  Call spark_commit() first in the same transaction.  Returns the offsets per partition. */
create or replace function trunkline.spark_append(numbers bigint[], messages bigint[])
returns table (topic text, partition int, first_offset bigint, last_offset bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  source text := trunkline._spark_staged(numbers, messages, 'batches');
  batch record;
  stored record;
begin
  if source is null then
    return;
  end if;
  for batch in execute format('select * from (%s) b order by b.topic, b.partition, b.task, b.ordinal', source) loop
    stored := trunkline.log_append_batch(batch.topic, batch.partition, batch.n, batch.codec, batch.value_ends, batch.payload, batch.value_valid,
                                         batch.key_ends, batch.keys, batch.key_valid, batch.headers);
    if (batch.topic, batch.partition) is distinct from (topic, partition) then
      if topic is not null then
        return next;
      end if;
      topic := batch.topic;
      partition := batch.partition;
      first_offset := stored.first_offset;
    end if;
    last_offset := stored.last_offset;
  end loop;
  return next;
  perform trunkline.spark_unstage(numbers);
end $$;
comment on function trunkline.spark_append(bigint[], bigint[]) is 'Move staged record batches into the log and drop their staging tables; returns the offsets per partition.';
select trunkline._access('spark_append(bigint[], bigint[])', 'writer');
