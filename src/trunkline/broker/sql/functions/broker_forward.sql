/* Append the events of a topic to the topic of the log with the same name, in the order of their positions, and move its
   cursor in the same transaction: none is missed, none comes twice.  Returns how many it appended; 0 when nothing is
   there, or while somebody else forwards this topic.  Call it again until it returns 0.
   A message has the payload as JSON text, the metadata as headers, the id of the event, and goes to the partition of its
   key (UTF-8), as log_append() sends it; events without a key go all to the partition of the topic's name, which keeps their order.
   In a compacted topic the payload null is a tombstone, and events without a key share the empty key.
   Events for one subscription alone are not forwarded.
   An append that is held open holds back its topic only: after a short wait for it 55P03 is raised and nothing was done.
   Locks: the cursor, then the partitions.  Errors: TL400, TL404, TL422, 55P03. */
create or replace function trunkline.broker_forward(topic text, max_events int default 10000)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
  present trunkline.log_topic := trunkline._log_topic_row(topic);
  most_together bigint := trunkline._setting('log.batch_bytes')::bigint / 2;  -- a batch ends with the message that exceeds it
  number bigint;
  done bigint;
  head bigint;
  taken record;
  part record;
  batch trunkline.log_batch;
begin
  perform trunkline._isolation_check('Forwarding');
  if max_events is null or max_events < 1 then
    perform trunkline._raise('TL422', format('max_events is at least 1, got %s.', coalesce(max_events::text, 'NULL')));
  end if;
  select k.cursor_id into number from trunkline.cursor_key k
   where k.resource = trunkline._broker_forward_resource(present.topic_id) for no key update skip locked;
  if not found then
    return 0;
  end if;
  -- statements of their own: they see what the one before us in the lock committed
  done := (trunkline._cursor_latest(number)).up_to;
  head := trunkline.broker_head();
  if head <= done then
    return 0;
  end if;
  with found_ as materialized (select r.* from trunkline.broker_events(done + 1, max_events, array[broker_forward.topic], head) r),
  enough as (  -- the running sum is read up to the first event that exceeds it: none behind that is made into text
    select w.up_to
      from (select f.up_to, sum(octet_length(f.payload::text) + coalesce(octet_length(f.metadata::text), 0)) over (order by f.up_to rows unbounded preceding) as bytes
              from found_ f) w
     where w.bytes >= most_together limit 1)
  select count(*) as seen, count(*) filter (where e.fits) as n, max(e.up_to) filter (where e.fits) as last,
         array_agg(e.event_id order by e.up_to) filter (where e.wanted) as ids,
         array_agg(convert_to(e.key, 'UTF8') order by e.up_to) filter (where e.wanted) as keys,
         array_agg(case when not present.compact or e.payload <> 'null' then convert_to(e.payload::text, 'UTF8') end order by e.up_to)
           filter (where e.wanted) as payloads,
         array_agg(e.metadata order by e.up_to) filter (where e.wanted) as headers
    into taken
    from (select s.*, s.fits and s.subscription is null as wanted
            from (select f.*, f.up_to <= coalesce((select n.up_to from enough n), head) as fits from found_ f) s) e;
  if taken.n = 0 then
    return 0;
  end if;
  for part in
    select m.to_partition, array_agg(m.id order by m.place) as ids, array_agg(m.payload order by m.place) as payloads,
           array_agg(m.key order by m.place) as keys, array_agg(m.header order by m.place) as headers
      from (select l.*, sum(coalesce(octet_length(l.payload), 0)) over (partition by l.to_partition order by l.place rows unbounded preceding)
                          - coalesce(octet_length(l.payload), 0) as bytes_before
              from (select u.id, u.payload, coalesce(u.key, case when present.compact then ''::bytea end) as key, u.header, u.place,
                           case when present.partitions = 1 then 0
                                else trunkline.log_partition_of(coalesce(u.key, convert_to(broker_forward.topic, 'UTF8')), present.partitions) end as to_partition
                      from unnest(taken.ids, taken.payloads, taken.keys, taken.headers) with ordinality u (id, payload, key, header, place)) l) m
     group by m.to_partition, m.bytes_before / most_together
     order by m.to_partition, m.bytes_before / most_together
  loop
    batch := trunkline._log_pack(part.payloads, part.keys, part.headers);
    perform trunkline._log_store(topic, part.to_partition, batch.n, 0, batch.value_ends, batch.payload, batch.value_valid,
                                 batch.key_ends, batch.keys, batch.key_valid, batch.headers, null, null, trunkline._log_ids_bytes(part.ids));
    perform pg_notify('trunkline', format('log:%s:%s', topic, part.to_partition));
  end loop;
  perform trunkline._cursor_write(number, case when taken.n < taken.seen or taken.seen = max_events then taken.last else head end);
  return coalesce(cardinality(taken.ids), 0);
end $$;
comment on function trunkline.broker_forward(text, int) is 'Append the events of a topic to the topic of the log with the same name.';
select trunkline._access('broker_forward(text, int)', 'writer');
