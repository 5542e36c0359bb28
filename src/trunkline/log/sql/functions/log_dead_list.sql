/* Dead letters that are not settled, the newest first: messages that log_bury() has moved to <topic>.dead, and that nobody has retried or
   discarded.  letter is the number by which one is named, its offset there; topic, partition and log_offset are where it came from.
   What others have appended there is listed with what it tells of itself.  Settled is what the group dead-letters of <topic>.dead
   is done with.  Errors: TL404. */
create or replace function trunkline.log_dead_list(topic text default null, group_name text default null)
returns table (letter bigint, topic text, group_name text, partition int, log_offset bigint, key bytea, attempts int, reason text, failed_at timestamptz)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select l.letter, l.from_topic, l.from_group, l.from_partition, l.from_offset, l.key, l.attempts, l.reason, l.failed_at
    from trunkline._log_dead_letters($1, null, false) l
   where $2 is null or l.from_group = $2
   order by l.failed_at desc, l.letter desc;
$$;
comment on function trunkline.log_dead_list(text, text) is 'Dead letters of shared groups: messages that failed for good and are not settled.';
select trunkline._access('log_dead_list(text, text)', 'reader');
