/* Did the life of the server that a reader saw write what is archived at an offset?  TL410 with the cut if not; an offset that is
   in no file has left, and harms nobody.
   Of a segment that was archived before its lives were noted it is only known who wrote its last message, and by the one before it
   whose life was there when it began: any life between them may have written the offset. */
create or replace function trunkline._log_check_archived(topic text, part trunkline.log_partition, log_offset bigint, incarnation int)
returns void language plpgsql as $$
declare
  archived trunkline.log_archive := trunkline._log_archived(part, log_offset);
  earliest int;
  writer int;
  cut bigint;
begin
  select l.incarnation, l.incarnation into earliest, writer from trunkline.log_archive_life l
   where l.topic_id = part.topic_id and l.partition = part.partition and l.first_offset = archived.first_offset and l.begins <= log_offset
   order by l.begins desc limit 1;
  if not found then
    writer := archived.incarnation;
    select a.incarnation into earliest from trunkline.log_archive a
     where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset = archived.first_offset - 1;
    if log_offset = archived.last_offset then
      earliest := writer;
    end if;
  end if;
  if incarnation > writer or incarnation < earliest then
    select max(a.last_offset) into cut from trunkline.log_archive a
     where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset < log_offset and a.incarnation <= _log_check_archived.incarnation;
    cut := coalesce(cut, trunkline._log_first(part) - 1);
    if incarnation < writer then  -- the segment after that may begin with what both share
      cut := greatest(cut, (select min(l.begins) - 1 from trunkline.log_archive_life l
                             where l.topic_id = part.topic_id and l.partition = part.partition and l.incarnation > _log_check_archived.incarnation
                               and l.first_offset = (trunkline._log_archived(part, cut + 1)).first_offset));
    end if;
    raise exception using errcode = 'TL410', message = format('offset %s of partition %s of "%s" was written by incarnation %s of the server, yours by %s.', log_offset, part.partition, topic, writer, incarnation),
      hint = 'The server was restored or failed over: what you saw beyond the cut is not in this history.', detail = jsonb_build_object('topic', topic, 'partition', part.partition, 'cut', cut, 'incarnation', writer, 'asked', log_offset + 1)::text;
  end if;
end $$;
