/* Check a topic: per partition the number of messages and every break of the promise (a gap, an overlap, a
   batch whose length does not fit).  No problem rows means whole.  Reads every batch's index entry, not its data. */
create or replace function trunkline.log_verify(topic text)
returns table (partition int, first_offset bigint, last_offset bigint, messages bigint, problem text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  part trunkline.log_partition;
  segment trunkline.log_segment;
  expected bigint;
  batch record;
begin
  for part in select p.* from trunkline.log_partition p where p.topic_id = settings.topic_id order by p.partition loop
    partition := part.partition;
    first_offset := part.first_offset;
    last_offset := trunkline._log_tail(part);
    messages := 0;
    problem := null;
    expected := null;
    for segment in select s.* from trunkline.log_segment s where s.topic_id = part.topic_id and s.partition = part.partition order by s.first_offset loop
      expected := coalesce(expected, segment.first_offset);
      if segment.first_offset <> expected and not (settings.compact and segment.first_offset > expected) then
        problem := format('segment %s starts at %s, expected %s', segment.segment_id, segment.first_offset, expected);
        return next;
      end if;
      for batch in execute format('select b.base_offset, b.last_offset, b.n, b.deltas is not null as compacted,
          b.codec = 0 and octet_length(b.value_ends) <> 4 * (b.n + 1) as misfit from trunkline.log_segment_%s b order by b.base_offset', segment.segment_id) loop
        if batch.base_offset <> expected and not (settings.compact and batch.base_offset > expected) then
          problem := format('offset %s expected, found %s', expected, batch.base_offset);
          return next;
        end if;
        if batch.misfit or not batch.compacted and batch.n <> batch.last_offset - batch.base_offset + 1 then
          problem := format('batch %s to %s holds %s messages', batch.base_offset, batch.last_offset, batch.n);
          return next;
        end if;
        messages := messages + case when batch.base_offset >= part.first_offset or batch.compacted then batch.n
                                    else greatest(batch.last_offset - part.first_offset + 1, 0) end;
        expected := batch.last_offset + 1;
      end loop;
      if segment.last_offset is not null then
        expected := segment.last_offset + 1;
      end if;
    end loop;
    problem := null;
    return next;
  end loop;
end $$;
comment on function trunkline.log_verify(text) is 'Per partition the number of messages, and every break of the promise of gapless offsets.';
select trunkline._access('log_verify(text)', 'reader');
