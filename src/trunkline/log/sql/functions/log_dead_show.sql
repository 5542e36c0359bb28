/* One dead letter with its value and all of its headers.  Errors: TL404 also when it is settled, TL415 a client has compressed it. */
create or replace function trunkline.log_dead_show(topic text, letter bigint)
returns table (group_name text, partition int, log_offset bigint, key bytea, value bytea, headers jsonb, attempts int, reason text, failed_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_letter record;
begin
  if topic is null then
    perform trunkline._log_topic_row(topic);
  end if;
  select l.* into found_letter from trunkline._log_dead_letters(topic, coalesce(letter, 0), true) l;
  if not found then
    perform trunkline._log_dead_missing(topic, letter);
  end if;
  perform trunkline._log_dead_check(topic, letter, found_letter.readable);
  return query select found_letter.from_group, found_letter.from_partition, found_letter.from_offset, found_letter.key, found_letter.value,
                      found_letter.headers, found_letter.attempts, found_letter.reason, found_letter.failed_at;
end $$;
comment on function trunkline.log_dead_show(text, bigint) is 'One dead letter: the message, and what is told about it.';
select trunkline._access('log_dead_show(text, bigint)', 'reader');
