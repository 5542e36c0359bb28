/* Record batches from an offset on, for clients: at least one if there is any, then more until about
   max_bytes of stored data or max_messages.  skip and take tell which messages of a batch were asked for.
   No rows at the tip.  Reads only; a poll costs two index look-ups.  Segments are read by index and never sorted,
   whatever the planner believes of a table that it has not analysed.
   incarnation is that of the last batch the reader saw: a position from another history is TL410.
   VOLATILE: when retention or compaction drops a segment between two looks, the next look must see that. */
create or replace function trunkline.log_fetch(
  topic text, partition int, from_offset bigint, max_messages int default 10000, max_bytes int default 4194304, incarnation int default null)
returns table (
  base_offset bigint, last_offset bigint, at timestamptz, n int, written_by int, format smallint, codec smallint,
  value_ends bytea, payload bytea, value_valid bytea, key_ends bytea, keys bytea, key_valid bytea,
  deltas bytea, event_ids bytea, headers bytea, skip int, take int)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_variable
declare
  part trunkline.log_partition;
  segment bigint;
  reach bigint := from_offset;
  rest int := max_messages;
  bytes bigint := 0;
  tail bigint;
begin
  if max_messages is null or max_messages < 1 or max_bytes is null or max_bytes < 1 then
    raise exception using errcode = 'TL422', message = format('max_messages and max_bytes must be at least 1, got %s and %s.', max_messages, max_bytes);
  end if;
  perform trunkline._log_may(topic, 'read', 'consume');
  for attempt in 1 .. 10 loop
    begin
      part := trunkline._log_partition_row(topic, partition);
      if from_offset is null or from_offset < part.first_offset or from_offset = part.first_offset and from_offset > 1 and incarnation is not null then
        perform trunkline._log_check_position(topic, part, from_offset, incarnation);
      end if;
      tail := part.segment_first - 1;
      -- the floor once more, in the snapshot that lists the segments: a gap is never handed out
      for segment in
        select s.segment_id from trunkline.log_partition p join trunkline.log_segment s using (topic_id, partition)
         where p.topic_id = part.topic_id and p.partition = part.partition and p.first_offset <= from_offset
           and (s.last_offset is null or s.last_offset >= reach - 1)
         order by s.first_offset
      loop
        -- from the batch before the position on: it tells who wrote what the reader saw last
        for base_offset, last_offset, at, n, written_by, format, codec, value_ends, payload, value_valid,
            key_ends, keys, key_valid, deltas, event_ids, headers in
          execute format(
            'select b.base_offset, b.last_offset, b.at, b.n, b.incarnation, b.format, b.codec, b.value_ends, b.payload, b.value_valid,
                    b.key_ends, b.keys, b.key_valid, b.deltas, b.event_ids, b.headers
               from trunkline.log_segment_%1$s b
              where b.base_offset >= coalesce((select f.base_offset from trunkline.log_segment_%1$s f where f.base_offset < $1 order by f.base_offset desc limit 1), 0)
              order by b.base_offset', segment) using reach
        loop
          tail := last_offset;
          if base_offset < from_offset and last_offset >= from_offset - 1 and written_by <> incarnation then
            perform trunkline._log_check_position(topic, part, from_offset, incarnation);
          end if;
          continue when last_offset < reach;
          skip := case when base_offset >= reach then 0
                       when deltas is null then reach - base_offset
                       else trunkline._log_skip(deltas, reach - base_offset) end;
          take := least(n - skip, rest);
          continue when take <= 0;
          return next;
          reach := last_offset + 1;
          rest := rest - take;
          bytes := bytes + octet_length(payload) + coalesce(octet_length(keys), 0) + coalesce(octet_length(headers), 0);
          if rest <= 0 or bytes >= max_bytes then
            return;
          end if;
        end loop;
      end loop;
      continue when reach = from_offset and tail >= from_offset and exists (  -- it left between our two looks: say so
        select from trunkline.log_partition p where p.topic_id = part.topic_id and p.partition = part.partition and p.first_offset > from_offset);
      if reach = from_offset and tail < from_offset - 1 then
        perform trunkline._log_check_position(topic, part, from_offset, incarnation);
      end if;
      return;
    exception when undefined_table then
      if reach > from_offset then
        return;  -- what follows may have left with retention: the next call finds out
      end if;
    end;
  end loop;
  perform trunkline._log_left();
end $$;
comment on function trunkline.log_fetch(text, int, bigint, int, int, int) is 'Record batches from an offset on, for clients.';
select trunkline._access('log_fetch(text, int, bigint, int, int, int)', 'reader');
