/* A duty of maintain(): the oldest sealed segment of a partition leaves when all of it is past the retention, or
   while the partition is larger than retention_bytes; of a topic that asks to be archived when that was done, and then
   also after log.archived_retention.  The floor rises; readers behind it get TL410.  A partition
   that an append holds for long does not keep the others from their turn. */
create or replace function trunkline.log_segments_retire()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  segment trunkline.log_segment;
begin
  perform set_config('lock_timeout', (1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
  -- the topic is held: what it asks of its retention cannot change before the segment has left
  for segment in
    select s.*
      from trunkline.log_topic t join trunkline.log_partition p using (topic_id)
      cross join lateral (
        select s.* from trunkline.log_segment s where s.topic_id = p.topic_id and s.partition = p.partition
         order by s.first_offset limit 1) s
      left join trunkline.log_archive a on t.archive and a.topic_id = s.topic_id and a.partition = s.partition and a.last_offset = s.last_offset
     where s.last_offset is not null
       and (s.last_offset < p.first_offset
            or (a.at is not null or not t.archive)
               and (s.last_at < clock_timestamp() - t.retention
                    or a.at <= clock_timestamp() - trunkline._setting('log.archived_retention')::interval
                    or t.retention_bytes < (
                      select sum(pg_total_relation_size(to_regclass('trunkline.log_segment_' || x.segment_id))) from trunkline.log_segment x
                       where x.topic_id = p.topic_id and x.partition = p.partition and x.segment_id <> s.segment_id)))
     for share of t skip locked
  loop
    begin
      perform trunkline._log_retire(segment);
      return true;
    exception when lock_not_available then
      null;  -- an append is under way for long: the next round tries again
    end;
  end loop;
  return false;
end $$;
comment on function trunkline.log_segments_retire() is 'Take one segment that is past the retention out of the log; a duty of maintain().';
select trunkline._access('log_segments_retire()', 'admin');
insert into trunkline.duty (duty, rank) values ('log_segments_retire', 20) on conflict do nothing;
