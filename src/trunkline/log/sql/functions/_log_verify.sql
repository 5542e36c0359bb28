/* One partition of log_verify().  Only where something was compacted may offsets be missing.  A segment that is
   dropped meanwhile is an undefined_table. */
create or replace function trunkline._log_verify(
  topic_id int, partition int, out first_offset bigint, out last_offset bigint, out messages bigint, out problems text[])
language plpgsql as $$
declare
  holes boolean;
  segment record;
  batch record;
  expected bigint;
begin
  select t.compact or exists (select from trunkline.log_segment s where s.topic_id = t.topic_id and s.compacted_at is not null) into holes
    from trunkline.log_topic t where t.topic_id = _log_verify.topic_id;
  messages := 0;
  problems := '{}';
  for segment in
    select s.segment_id, s.first_offset, s.last_offset, p.first_offset as floor
      from trunkline.log_partition p join trunkline.log_segment s using (topic_id, partition)
     where p.topic_id = _log_verify.topic_id and p.partition = _log_verify.partition order by s.first_offset
  loop
    if expected is null then
      first_offset := segment.floor;
      expected := least(segment.first_offset, segment.floor);
    end if;
    if segment.first_offset <> expected and not (holes and segment.first_offset > expected) then
      problems := problems || format('segment %s starts at %s, expected %s', segment.segment_id, segment.first_offset, expected);
    end if;
    expected := segment.first_offset;
    for batch in execute format($sql$
      select b.base_offset, b.last_offset, b.n, b.n <> b.last_offset - b.base_offset + 1 and b.deltas is null
             or b.codec = 0 and octet_length(b.value_ends) <> 4 * (b.n + 1) or octet_length(b.deltas) <> 4 * b.n as misfit,
             case when b.base_offset >= $1 then 0
                  when b.deltas is null then least(b.n, $1 - b.base_offset)
                  else trunkline._log_skip(b.deltas, $1 - b.base_offset) end as below
        from trunkline.log_segment_%s b order by b.base_offset $sql$, segment.segment_id) using segment.floor
    loop
      if batch.base_offset <> expected and not (holes and batch.base_offset > expected) then
        problems := problems || format('offset %s expected, found %s', expected, batch.base_offset);
      end if;
      if batch.misfit then
        problems := problems || format('batch %s to %s holds %s', batch.base_offset, batch.last_offset, trunkline._counted(batch.n, 'message'));
      end if;
      messages := messages + batch.n - batch.below;
      expected := batch.last_offset + 1;
    end loop;
    if expected <> segment.last_offset + 1 and not (holes and expected <= segment.last_offset) then
      problems := problems || format('segment %s ends at %s, expected %s', segment.segment_id, expected - 1, segment.last_offset);
    end if;
    expected := coalesce(segment.last_offset + 1, expected);
  end loop;
  last_offset := expected - 1;
end $$;
