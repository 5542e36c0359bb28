/* Messages from an offset on, in SQL.  No rows at the tip.  Batches that a client compressed are TL415:
   fetch them with a client.  Other errors as log_fetch. */
create or replace function trunkline.log_read(
  topic text, partition int default 0, from_offset bigint default 1, max_messages int default 100, max_bytes int default 4194304)
returns table (log_offset bigint, at timestamptz, key bytea, value bytea, headers jsonb)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  batch record;
begin
  for batch in select f.* from trunkline.log_fetch(log_read.topic, log_read.partition, log_read.from_offset, log_read.max_messages, log_read.max_bytes) f loop
    if batch.codec <> 0 then
      raise exception using errcode = 'TL415', message = format('offsets %s to %s of "%s" are compressed with zstd, which SQL cannot read.', batch.base_offset, batch.last_offset, topic),
        hint = 'Use a client (trunkline log read), or create the topic with codec "none".', detail = jsonb_build_object('topic', topic, 'partition', partition, 'from', batch.base_offset)::text;
    end if;
    return query
      select m.log_offset, batch.at, m.key, m.value, m.header
        from trunkline._log_messages(batch.base_offset, batch.n, batch.value_ends, batch.payload, batch.value_valid,
               batch.key_ends, batch.keys, batch.key_valid, batch.deltas, batch.headers) m
       where m.i >= batch.skip and m.i < batch.skip + batch.take order by m.i;
  end loop;
end $$;
comment on function trunkline.log_read(text, int, bigint, int, int) is 'Messages from an offset on, in SQL.';
select trunkline._access('log_read(text, int, bigint, int, int)', 'reader');
