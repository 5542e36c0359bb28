/* Is the next offset of a reader, noted in another life of the server, a place in this history?  It is when that life
   is an earlier one of this server and wrote, or found, what lies before the offset.
   TL410 otherwise, with the cut: the last offset that both histories are known to share.  Among archived offsets
   that is known by the segment. */
create or replace function trunkline.log_position_check(topic text, partition int, next_offset bigint, incarnation int)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  present int := trunkline.incarnation();
  known int;
  segment bigint;
  cut bigint;
begin
  if next_offset is null or incarnation is null then
    raise exception using errcode = 'TL422', message = 'an offset and an incarnation are needed, got NULL.';
  end if;
  if (trunkline._log_archived(part, next_offset)).topic_id is null then
    perform trunkline._log_check_position(topic, part, next_offset, null);
  end if;
  select max(i.incarnation) into known from trunkline.incarnation i where i.incarnation <= log_position_check.incarnation;
  begin
    for segment in select s.segment_id from trunkline.log_segment s
                    where s.topic_id = part.topic_id and s.partition = part.partition order by s.first_offset desc loop
      execute format('select max(b.last_offset) from trunkline.log_segment_%s b where b.incarnation <= $1', segment) into cut using known;
      exit when cut is not null;
    end loop;
  exception when undefined_table then
    perform trunkline._log_left();
  end;
  cut := coalesce(cut, (select max(a.last_offset) from trunkline.log_archive a where a.topic_id = part.topic_id and a.partition = part.partition
                          and a.incarnation <= known and a.last_offset < part.first_offset), trunkline._log_first(part) - 1);
  if known is distinct from log_position_check.incarnation or next_offset - 1 > cut then
    raise exception using errcode = 'TL410', message = format('offset %s of partition %s of "%s" was noted in life %s of the server; this is life %s.', next_offset, partition, topic, log_position_check.incarnation, present),
      hint = format('The server was restored or failed over: what lies beyond offset %s is another history. Start again from there.', least(cut, next_offset - 1)), detail = jsonb_build_object('topic', topic, 'partition', partition, 'cut', least(cut, next_offset - 1), 'incarnation', present, 'asked', next_offset)::text;
  end if;
end $$;
comment on function trunkline.log_position_check(text, int, bigint, int) is 'Is an offset that was noted in another life of the server a place in this history?';
select trunkline._access('log_position_check(text, int, bigint, int)', 'reader');
