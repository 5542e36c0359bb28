/* Append a dead letter to its topic again, or all of a group, and settle it, in one transaction: however many retry it, it is there once.  It
   goes to the partition that it came from (by its key, where that is gone) with its key and the headers of before; the header
   retry_of says which letter it was, and what was told about it.  All groups of the topic get it.  Returns how many.
   Holds the partitions until commit.  Errors: TL400 unless in READ COMMITTED, TL404, TL415 a client has compressed it, TL422. */
create or replace function trunkline.log_dead_retry(topic text, letter bigint default null, group_name text default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  taken bigint[] := trunkline._log_dead_take(topic, letter, group_name);
  one record;
  settings trunkline.log_topic;
  batch trunkline.log_batch;
  to_partition int;
begin
  for one in
    select l.letter, l.key, l.readable, trunkline._log_dead_headers(l.headers, l.about, l.letter) as headers,
           case when l.about -> 'tombstone' is distinct from 'true' then l.value end as value, coalesce(l.about ->> 'topic', log_dead_retry.topic) as to_topic,
           coalesce(substring(l.about ->> 'partition' from '^[0-9]{1,9}$')::int, 2147483647) as from_partition
      from unnest(taken) t (letter) cross join lateral trunkline._log_dead_read(trunkline._log_dead_topic(topic), t.letter, t.letter, true) l
     order by to_topic, from_partition, l.letter  -- partitions in the order in which log_append() takes them
  loop
    perform trunkline._log_dead_check(topic, one.letter, one.readable);
    settings := trunkline._log_topic_row(one.to_topic);
    perform trunkline._log_may(one.to_topic, 'append');
    to_partition := case when one.from_partition < settings.partitions then one.from_partition
                         else trunkline.log_partition_of(coalesce(one.key, ''), settings.partitions) end;
    batch := trunkline._log_pack(array[one.value], array[one.key], array[one.headers]);
    perform trunkline._log_store(one.to_topic, to_partition, 1, 0, batch.value_ends, batch.payload, batch.value_valid,
                                 batch.key_ends, batch.keys, null, batch.headers, null, null);
    perform pg_notify('trunkline', format('log:%s:%s', one.to_topic, to_partition));
  end loop;
  return cardinality(taken);
end $$;
comment on function trunkline.log_dead_retry(text, bigint, text) is 'Append dead letters to their topic again: one, or all of a group.';
select trunkline._access('log_dead_retry(text, bigint, text)', 'writer');
