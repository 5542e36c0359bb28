/* A duty of maintain(): drop the table of one segment that left the log; with the last one, the functions of partitions
   that left: a backup that needs them holds a table too.  A reader that still holds a table is not waited for longer than
   maintain.lock_timeout; the next round tries again. */
create or replace function trunkline.log_segments_drop()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  number bigint;
  unused text;
begin
  perform set_config('lock_timeout', (1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
  for number in select s.segment_id from trunkline.log_segment s where s.topic_id is null order by s.segment_id for update skip locked loop
    begin
      execute format('drop table if exists trunkline.log_segment_%s', number);
      delete from trunkline.log_segment s where s.segment_id = number;
      for unused in select a.name from trunkline._log_appends() a
                     where a.part is null and not exists (select from trunkline.log_segment s where s.topic_id is null) loop
        perform trunkline._routines_lock(shared => true);
        execute format('drop function if exists trunkline.%I', unused);
      end loop;
      return true;
    exception when lock_not_available then
      -- whoever holds one, a backup say, is likely to hold many: the others are only tried
      perform set_config('lock_timeout', '1ms', true);
    end;
  end loop;
  return false;
end $$;
comment on function trunkline.log_segments_drop() is 'Drop the table of one segment that left the log; a duty of maintain().';
select trunkline._access('log_segments_drop()', 'admin');
insert into trunkline.duty (duty, rank) values ('log_segments_drop', 40) on conflict do nothing;
