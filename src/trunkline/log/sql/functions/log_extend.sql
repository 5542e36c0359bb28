/* More time for a claim: the deadline counts from now.  TL423 when it is not in flight any more. */
create or replace function trunkline.log_extend(topic text, group_name text, partition int, claim bigint, deadline interval)
returns timestamptz language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  until timestamptz;
begin
  if deadline is null or deadline <= interval '0' or deadline > interval '100 years' then
    raise exception using errcode = 'TL422', message = format('a deadline must be positive and at most 100 years, got %s.', coalesce(deadline::text, 'NULL'));
  end if;
  until := clock_timestamp() + deadline;
  perform trunkline._log_claim_change(topic, group_name, partition, claim, until);
  return until;
end $$;
comment on function trunkline.log_extend(text, text, int, bigint, interval) is 'More time for a claim, counted from now.';
select trunkline._access('log_extend(text, text, int, bigint, interval)', 'reader');
