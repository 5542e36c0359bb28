/* Check a topic: per partition the number of messages and every break of the promise (a gap, an overlap, a
   batch whose length does not fit).  No problem rows means whole.  Reads every batch's index entry, not its data. */
create or replace function trunkline.log_verify(topic text)
returns table (partition int, first_offset bigint, last_offset bigint, messages bigint, problem text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  number int := (trunkline._log_topic_row(topic)).topic_id;
  report record;
begin
  for partition in select p.partition from trunkline.log_partition p where p.topic_id = number order by p.partition loop
    for attempt in 1 .. 10 loop
      begin
        report := trunkline._log_verify(number, partition);
        raise sqlstate 'LETGO';
      exception when sqlstate 'LETGO' then  -- its segments are let go: see _log_tail_briefly()
        exit;
      when undefined_table then  -- retention or compaction dropped a segment meanwhile
        if attempt = 10 then
          perform trunkline._log_left();
        end if;
      end;
    end loop;
    first_offset := report.first_offset;
    last_offset := report.last_offset;
    messages := report.messages;
    foreach problem in array report.problems || null::text loop
      return next;
    end loop;
  end loop;
end $$;
comment on function trunkline.log_verify(text) is 'Per partition the number of messages, and every break of the promise of gapless offsets.';
select trunkline._access('log_verify(text)', 'reader');
