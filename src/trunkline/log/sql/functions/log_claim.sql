/* Claim the next messages of a partition for one of many readers of a shared group: exactly
   min(max_messages, available), or a range whose claim was released, ran past its deadline, or lost its process.
   Without a deadline the claim is done at once (at most once); with one it must be acknowledged with log_ack()
   (at least once), and attempts counts the deliveries.  The last of max_attempts is made message by message;
   attempts above max_attempts means: a dead letter, to be moved aside with log_bury().
   reason is what the last log_release() said.  Only who says archived gets ranges that have left the database for the
   archive: a client, which reads them from files; others get TL410.
   The first claim makes the group, at start; if retention passes that place meanwhile, where the log starts by then, unless
   start is an offset.  No row when there is nothing; then nothing else is written.
   Errors: TL404, TL409, TL410 the group fell behind the retention, TL422, TL429 too many in flight. */
create or replace function trunkline.log_claim(
  topic text, group_name text, partition int, max_messages int default 100, deadline interval default null,
  max_attempts int default 5, process uuid default null, start text default 'earliest',
  archived boolean default false)
returns table (claim bigint, first_offset bigint, last_offset bigint, attempts int, expires timestamptz, reason text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  made boolean;
begin
  if max_messages is null or max_messages < 1 then
    raise exception using errcode = 'TL422', message = format('max_messages must be at least 1, got %s.', coalesce(max_messages::text, 'NULL'));
  elsif deadline <= interval '0' or deadline > interval '100 years' then
    raise exception using errcode = 'TL422', message = format('a deadline must be positive and at most 100 years, got %s.', deadline),
      hint = 'Leave it out for at-most-once.';
  elsif max_attempts is null or max_attempts < 1 then
    raise exception using errcode = 'TL422', message = format('max_attempts must be at least 1, got %s.', coalesce(max_attempts::text, 'NULL'));
  elsif archived is null then
    raise exception using errcode = 'TL422', message = 'archived must be true or false, got NULL.';
  end if;
  perform trunkline._log_group_may(topic, group_name, 'consume');
  made := trunkline._log_group_ensure(trunkline._log_topic_row(topic), group_name, 'shared', start);
  return query select * from trunkline._log_claim(topic, group_name, partition, max_messages, deadline, max_attempts, process, clock_timestamp(), archived, case when made then start end);
end $$;
comment on function trunkline.log_claim(text, text, int, int, interval, int, uuid, text, boolean) is
  'Claim the next messages of a partition for one of many readers of a shared group.';
select trunkline._access('log_claim(text, text, int, int, interval, int, uuid, text, boolean)', 'reader');
