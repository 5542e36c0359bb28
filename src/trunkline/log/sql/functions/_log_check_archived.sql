/* May the life of the server that a reader saw have written what is archived at an offset?  A segment tells who wrote its last
   message, and the one before it whose life was there when it began.  TL410 with the cut if not; an offset that is in no file
   has left, and harms nobody. */
create or replace function trunkline._log_check_archived(topic text, part trunkline.log_partition, log_offset bigint, incarnation int)
returns void language plpgsql as $$
declare
  archived trunkline.log_archive := trunkline._log_archived(part, log_offset);
  earliest int;
  cut bigint;
begin
  select a.incarnation into earliest from trunkline.log_archive a
   where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset = archived.first_offset - 1;
  if log_offset = archived.last_offset then
    earliest := archived.incarnation;
  end if;
  if incarnation > archived.incarnation or incarnation < earliest then
    select max(a.last_offset) into cut from trunkline.log_archive a
     where a.topic_id = part.topic_id and a.partition = part.partition and a.last_offset < log_offset and a.incarnation <= _log_check_archived.incarnation;
    perform trunkline._raise('TL410', format('offset %s of partition %s of "%s" was written by incarnation %s of the server, yours by %s.', log_offset, part.partition, topic, archived.incarnation, incarnation),
      'The server was restored or failed over: what you saw beyond the cut is not in this history.',
      jsonb_build_object('topic', topic, 'partition', part.partition, 'cut', coalesce(cut, trunkline._log_first(part) - 1), 'incarnation', archived.incarnation, 'asked', log_offset + 1));
  end if;
end $$;
