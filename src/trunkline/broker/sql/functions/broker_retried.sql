/* Another try of a batch has ended.  Without an error it is settled: it goes, and the next event that is parked behind
   each of its keys becomes due.  With an error it waits for the next try, or becomes dead letters when retry_after is NULL.
   Returns the keys of the batch of which nothing is set aside any more.
   The epoch must be that of the lane and stays so until commit.  Errors: TL404, TL422, TL423. */
create or replace function trunkline.broker_retried(
  group_name text, handler text, lane int, epoch bigint, batch bigint, error text default null, retry_after interval default null)
returns text[] language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
  keys text[];
begin
  if retry_after not between interval '0' and interval '1000 years' or (error is null and retry_after is not null) then
    raise exception using errcode = 'TL422', message = format('a wait is not negative, at most 1000 years, and comes with an error; got error %s, wait %s.',
      coalesce(quote_literal(left(error, 100)), 'NULL'), retry_after);
  end if;
  perform trunkline._owner_check(trunkline._broker_resource(reader.group_id, handler, lane), epoch);
  if error is null then
    with settled as (
      delete from trunkline.broker_retry r
       where r.group_id = reader.group_id and r.handler = reader.handler and r.lane = broker_retried.lane
         and r.batch = broker_retried.batch and r.status = 'waiting' returning r.key)
    select array_agg(distinct s.key) into keys from settled s;
  else
    with settled as (
      update trunkline.broker_retry r
         set attempts = r.attempts + 1,
             errors = r.errors || (trunkline._broker_error(broker_retried.error) || jsonb_build_object('attempt', r.attempts + 1)),
             status = case when retry_after is null then 'dead' else 'waiting' end,
             due_at = clock_timestamp() + retry_after,
             batch = case when retry_after is null then null else r.batch end
       where r.group_id = reader.group_id and r.handler = reader.handler and r.lane = broker_retried.lane
         and r.batch = broker_retried.batch and r.status = 'waiting' returning r.key)
    select array_agg(distinct s.key) into keys from settled s;
  end if;
  if keys is null then
    raise exception using errcode = 'TL404', message = format('handler "%s" of group "%s" has no batch %s that waits in lane %s.', handler, group_name, batch, lane);
  end if;
  return trunkline._broker_keys_free(reader.group_id, handler, keys);
end $$;
comment on function trunkline.broker_retried(text, text, int, bigint, bigint, text, interval) is
  'Settle another try of a batch: done, again later, or dead.';
select trunkline._access('broker_retried(text, text, int, bigint, bigint, text, interval)', 'reader');
