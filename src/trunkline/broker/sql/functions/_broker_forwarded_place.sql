/* Where an event stands in the partition of the log that it was forwarded to: its offset, and when it was stored.  NULLs when it is not found: it has
   left with retention or compaction, is archived, or lies behind more than so many batches that were stored since it was published. */
create or replace function trunkline._broker_forwarded_place(topic text, partition int, event_id bigint, published_at timestamptz, out log_offset bigint, out at timestamptz)
language plpgsql as $$
declare
  sought bytea := trunkline._log_ids_bytes(array[event_id]);
  reach bigint := trunkline.log_offset_at(topic, partition, published_at);
  batch record;
begin
  for round in 1 .. 100 loop
    for batch in select f.* from trunkline.log_fetch(topic, partition, reach) f loop
      reach := batch.last_offset + 1;
      continue when batch.event_ids is null or position(sought in batch.event_ids) = 0;
      select batch.base_offset + coalesce(trunkline._log_int(batch.deltas, i), i), batch.at into log_offset, at
        from generate_series(0, batch.n - 1) i where substring(batch.event_ids from i * 8 + 1 for 8) = sought;
      if found then
        return;
      end if;
    end loop;
    exit when not found;
  end loop;
exception when sqlstate 'TL410' then
  null;  -- the first that may be it is archived, or left just now
end $$;
