/* A duty of maintain(): seal one segment that is large or old enough, or as old as its topic keeps messages.  Returns whether there may be more. */
create or replace function trunkline.log_segments_seal()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  size bigint := trunkline._setting('log.segment_bytes');
  age interval := trunkline._setting('log.segment_age');
  full_one record;
begin
  for full_one in
    select p.topic_id, p.partition from trunkline.log_partition p join trunkline.log_topic t using (topic_id)
     where trunkline._log_first_at(p.segment_id) < clock_timestamp() - least(age, t.retention)
        or trunkline._log_tail_briefly(p) >= p.segment_first and pg_total_relation_size(to_regclass('trunkline.log_segment_' || p.segment_id)) >= size
  loop
    if trunkline._log_roll(full_one.topic_id, full_one.partition) then
      return true;
    end if;
  end loop;
  return false;
end $$;
comment on function trunkline.log_segments_seal() is 'Seal one segment that is large or old enough; a duty of maintain().';
select trunkline._access('log_segments_seal()', 'admin');
insert into trunkline.duty (duty, rank) values ('log_segments_seal', 10) on conflict do nothing;
