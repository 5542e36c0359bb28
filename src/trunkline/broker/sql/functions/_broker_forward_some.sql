/* What broker_forward() does when it holds the cursor of a topic: from the event after done up to head, at most max_events,
   fewer when they are large.  Events of watched tables that the owner of the topic may not see are left out.  careful: events that Postgres cannot write as text are recognised, which costs more. */
create or replace function trunkline._broker_forward_some(
  present trunkline.log_topic, number bigint, done bigint, head bigint, max_events int, careful boolean)
returns int language plpgsql as $$
declare
  -- a batch ends with the message that exceeds it; both together are less than a value of Postgres may have
  most_together bigint := least(trunkline._setting('log.batch_bytes')::bigint / 2, 268435456);
  largest bigint := least(trunkline._setting('broker.forward_bytes')::bigint, 536870912);
  taken record;
  part record;
  batch trunkline.log_batch;
begin
  with found_ as materialized (select r.* from trunkline._broker_events_for(done + 1, max_events, array[present.topic], head,
      (select o.owner from trunkline.object o where o.object = 'topic:' || present.topic)) r),
  enough as (  -- the running sum is read up to the first event that exceeds it: none behind that is made into text
    select w.up_to, w.too_large
      from (select z.up_to, z.bytes is null or z.bytes > largest as too_large, sum(z.bytes) over (order by z.up_to rows unbounded preceding) as bytes
              from (select f.up_to, case when f.subscription is not null then 0
                                         when careful then trunkline._event_text_bytes(f.payload, f.metadata)
                                         else octet_length(f.payload::text) + coalesce(octet_length(f.metadata::text), 0) end as bytes
                      from found_ f offset 0) z) w
     where w.bytes >= most_together or w.too_large limit 1)
  select count(*) as seen, (select n.up_to from enough n where n.too_large) as too_large, count(*) filter (where e.fits) as n, max(e.up_to) filter (where e.fits) as last,
         array_agg(e.event_id order by e.up_to) filter (where e.wanted) as ids,
         array_agg(convert_to(e.key, 'UTF8') order by e.up_to) filter (where e.wanted) as keys,
         array_agg(case when not present.compact or e.payload <> 'null' then convert_to(e.payload::text, 'UTF8') end order by e.up_to)
           filter (where e.wanted) as payloads,
         array_agg(e.metadata order by e.up_to) filter (where e.wanted) as headers
    into taken
    from (select s.*, s.fits and s.subscription is null as wanted
            from (select f.*, f.up_to <= coalesce((select n.up_to - n.too_large::int from enough n), head) as fits from found_ f) s) e;
  if taken.n = 0 and taken.too_large is not null then
    perform trunkline._broker_forward_aside(present, taken.too_large, largest);
    perform trunkline._cursor_write(number, taken.too_large);
    return 1;
  elsif taken.n = 0 then
    return 0;
  end if;
  for part in
    select m.to_partition, array_agg(m.id order by m.place) as ids, array_agg(m.payload order by m.place) as payloads,
           array_agg(m.key order by m.place) as keys, array_agg(m.header order by m.place) as headers
      from (select l.*, sum(coalesce(octet_length(l.payload), 0)) over (partition by l.to_partition order by l.place rows unbounded preceding)
                          - coalesce(octet_length(l.payload), 0) as bytes_before
              from (select u.id, u.payload, coalesce(u.key, case when present.compact then ''::bytea end) as key, u.header, u.place,
                           case when present.partitions = 1 then 0
                                else trunkline.log_partition_of(coalesce(u.key, convert_to(present.topic, 'UTF8')), present.partitions) end as to_partition
                      from unnest(taken.ids, taken.payloads, taken.keys, taken.headers) with ordinality u (id, payload, key, header, place)) l) m
     group by m.to_partition, m.bytes_before / most_together
     order by m.to_partition, m.bytes_before / most_together
  loop
    batch := trunkline._log_pack(part.payloads, part.keys, part.headers);
    perform trunkline._log_store(present.topic, part.to_partition, batch.n, 0, batch.value_ends, batch.payload, batch.value_valid,
                                 batch.key_ends, batch.keys, batch.key_valid, batch.headers, null, null, trunkline._log_ids_bytes(part.ids));
    perform pg_notify('trunkline', format('log:%s:%s', present.topic, part.to_partition));
  end loop;
  perform trunkline._cursor_write(number, case when taken.n < taken.seen or taken.seen = max_events then taken.last else head end);
  return coalesce(cardinality(taken.ids), 0);
end $$;
