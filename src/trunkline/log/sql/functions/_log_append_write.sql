/* Write the function of a partition's own that appends to its present segment: log_append_batch_<topic_id>_<partition>.
   It does what log_append_batch() does, with statements that name the table, so that a session plans them once.
   Whatever is not plain it leaves to log_append_batch(): another segment by now, another life of the server, a batch to
   refuse, a producer whose last batch is not the newest, an isolation level other than READ COMMITTED.  So it is right
   however old it is, and whoever may not call it loses nothing but time.  Compacted topics have none.
   The plans are kept by the session: they must not rest on statistics of a segment that was small.
   Locks: the caller holds the partition or has just made it, or holds _routines_lock() alone. */
create or replace function trunkline._log_append_write(part trunkline.log_partition)
returns void language plpgsql as $write$
declare
  settings trunkline.log_topic;
  name text := trunkline._log_append_name(part.topic_id, part.partition);
begin
  select t.* into settings from trunkline.log_topic t where t.topic_id = part.topic_id;
  if settings.compact then
    return;
  end if;
  execute format('create or replace function trunkline.%I(%s) language plpgsql security definer
    set search_path = pg_catalog, pg_temp set enable_seqscan = off as %L',
    name, pg_get_function_arguments('trunkline.log_append_batch'::regproc), format($body$
declare
  life int;
  segment_first bigint;
  segment_at timestamptz;
  tail bigint;
  tail_at timestamptz;
  tail_producer uuid;
  tail_seq bigint;
  limited boolean;
begin
  if now() <> statement_timestamp() then perform trunkline._lock_briefly(); end if;
  if topic = %1$L and partition = %2$s then
    select i.incarnation, p.segment_first, p.segment_at, exists (select from trunkline.quota) into life, segment_first, segment_at, limited
      from trunkline.log_partition p, trunkline.config c, trunkline._incarnation_present() i
     where p.topic_id = %3$s and p.partition = %2$s and p.segment_id = %4$s and c.name = 'log.batch_bytes'
       and c.value::int >= trunkline._log_append_plain(n, codec, value_ends, payload, value_valid, key_ends, keys, key_valid, headers, release_early)
       for no key update of p;
    if found then
      select b.last_offset, b.at, b.producer_id, b.producer_seq into tail, tail_at, tail_producer, tail_seq
        from trunkline.log_segment_%4$s b order by b.base_offset desc limit 1;
      if producer_id is null and producer_seq is null or tail_producer = producer_id and tail_seq < producer_seq then
        insert into trunkline.log_segment_%4$s as b
          (base_offset, last_offset, at, producer_id, producer_seq, n, incarnation, format, codec,
           value_ends, payload, key_ends, keys, key_valid, headers)
        values (coalesce(tail + 1, segment_first), coalesce(tail, segment_first - 1) + n, greatest(clock_timestamp(), tail_at, segment_at),
                producer_id, producer_seq, n, life, 1, codec, value_ends, payload, key_ends, keys, key_valid, headers)
        returning b.base_offset, b.last_offset, b.at into first_offset, last_offset, at;
        if limited then perform trunkline._quota_take(n, octet_length(payload) + coalesce(octet_length(keys), 0) + coalesce(octet_length(headers), 0)); end if;
        return;
      end if;
    end if;
  end if;
  if topic is distinct from %1$L or partition is distinct from %2$s then
    raise exception using errcode = 'TL422', message = format('this function appends to partition %2$s of topic "%%s", got partition %%s of "%%s".',
      %1$L, coalesce(partition::text, 'NULL'), coalesce(topic, 'NULL'));
  end if;
  select s.first_offset, s.last_offset, s.at into first_offset, last_offset, at
    from trunkline.log_append_batch(topic, partition, n, codec, value_ends, payload, value_valid, key_ends, keys, key_valid, headers,
                                    producer_id, producer_seq, release_early) s;
end $body$, settings.topic, part.partition, part.topic_id, part.segment_id));
  perform trunkline._log_append_grant(name, settings.topic);
end $write$;
select trunkline._routines_lock();
select trunkline._log_append_write(p) from trunkline.log_partition p;
