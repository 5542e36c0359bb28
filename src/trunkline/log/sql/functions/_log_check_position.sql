/* Is a position of a reader part of this history?  incarnation is that of the last batch the reader saw.
   TL410 archived (with the files that hold it), below the floor, beyond the tail, or when another life of the server wrote what lies before it. */
create or replace function trunkline._log_check_position(topic text, part trunkline.log_partition, from_offset bigint, incarnation int)
returns void language plpgsql as $$
declare
  archived trunkline.log_archive;
  tail bigint;
  segment bigint;
  writer int;
  cut bigint;
begin
  if from_offset is null or from_offset < 1 then
    raise exception using errcode = 'TL422', message = format('offsets start at 1, got %s.', coalesce(from_offset::text, 'NULL'));
  elsif from_offset < part.first_offset then
    archived := trunkline._log_archived(part, from_offset);
    if archived.topic_id is not null then
      perform trunkline._log_refuse_archived(topic, part, from_offset, archived);
    end if;
    raise exception using errcode = 'TL410', message = format('partition %s of "%s" starts at %s, asked for %s.', part.partition, topic, part.first_offset, from_offset),
      hint = 'Start from "earliest", or lengthen the retention.', detail = jsonb_build_object('topic', topic, 'partition', part.partition, 'first', part.first_offset, 'asked', from_offset)::text;
  end if;
  tail := trunkline._log_tail(part);
  if tail is null then
    perform trunkline._log_missing(topic, part.partition);
  elsif from_offset > tail + 1 then
    raise exception using errcode = 'TL410', message = format('partition %s of "%s" ends at %s, asked for %s.', part.partition, topic, tail, from_offset),
      hint = format('The next message gets offset %s: start there, or from "latest". If the offset existed before, the server was restored from a backup. If an older copy of its files was put in place, run incarnation_begin().', tail + 1), detail = jsonb_build_object('topic', topic, 'partition', part.partition, 'last', tail, 'cut', tail, 'asked', from_offset)::text;
  end if;
  if incarnation is not null and from_offset = part.first_offset then  -- what lies before it is archived, or gone
    select a.incarnation into writer from trunkline.log_archive a
     where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset = from_offset - 1;
    select max(a.last_offset) into cut from trunkline.log_archive a
     where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset < from_offset and a.incarnation <= _log_check_position.incarnation;
    cut := coalesce(cut, trunkline._log_first(part) - 1);
  elsif incarnation is not null then
    for segment in select s.segment_id from trunkline.log_segment s
                    where s.topic_id = part.topic_id and s.partition = part.partition and s.first_offset < from_offset order by s.first_offset desc loop
      if writer is null then
        execute format('select b.incarnation from trunkline.log_segment_%s b where b.base_offset <= $1 and b.last_offset >= $1 order by b.base_offset desc limit 1', segment)
          into writer using from_offset - 1;
        exit when writer is null or writer = incarnation;  -- NULL: compaction removed it
      end if;
      execute format('select max(b.last_offset) from trunkline.log_segment_%s b where b.incarnation <= $1 and b.base_offset < $2', segment)
        into cut using incarnation, from_offset;
      exit when cut is not null;
    end loop;
    cut := greatest(least(cut, from_offset - 1), part.first_offset - 1);
  end if;
  if writer <> incarnation then
    raise exception using errcode = 'TL410', message = format('offset %s of partition %s of "%s" was written by incarnation %s of the server, yours by %s.', from_offset - 1, part.partition, topic, writer, incarnation),
      hint = 'The server was restored or failed over: what you saw beyond the cut is not in this history.', detail = jsonb_build_object('topic', topic, 'partition', part.partition, 'cut', cut, 'incarnation', writer, 'asked', from_offset)::text;
  end if;
end $$;
