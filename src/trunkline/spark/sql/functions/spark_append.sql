/* Move staged record batches into the log, in the order of the numbers and of the ordinals inside, and drop the
   staging tables.  `messages` are the counts that the tasks reported: what differs was lost on the way (the server
   crashed: unlogged tables are empty then) and is a TL410.  Partitions are locked in order, so that two drivers never
   deadlock.  Call spark_commit() first in the same transaction.  Returns the offsets per partition. */
create or replace function trunkline.spark_append(numbers bigint[], messages bigint[])
returns table (topic text, partition int, first_offset bigint, last_offset bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  caller text := trunkline._spark_maker();
  source text;
  task record;
  found_messages bigint;
  batch record;
  stored record;
begin
  for task in select u.number, u.expected, s.staging_id from unnest(numbers, messages) u (number, expected)
              left join trunkline.spark_staging s on s.staging_id = u.number and s.kind = 'batches' and s.maker = caller
  loop
    found_messages := 0;
    if task.staging_id is not null then
      execute format('select coalesce(sum(b.n), 0) from trunkline.spark_staging_%s b', task.number) into found_messages;
    end if;
    if found_messages is distinct from task.expected then
      perform trunkline._raise('TL410', format('a task staged %s, %s there.', trunkline._counted(task.expected, 'message'), trunkline._counted(found_messages, 'is', 'are')),
        'The server was restarted meanwhile, or the staging table was dropped by maintenance. Run it again: nothing was written.');
    end if;
  end loop;
  select string_agg(format('select %s as task, b.* from trunkline.spark_staging_%s b', u.ordinal, u.number), ' union all ') into source
    from unnest(numbers) with ordinality u (number, ordinal);
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
