/* A handler failed with the events of these deliveries: they are set aside as one batch with the error, to be tried
   again after a while, or as dead letters when retry_after is NULL.  Commit the position in the same transaction.
   Returns the number of the batch, NULL for dead letters, which are each on their own.
   The epoch must be that of the lane and stays so until commit.  Errors: TL404, TL410, TL422, TL423. */
create or replace function trunkline.broker_fail(
  group_name text, handler text, lane int, epoch bigint, deliveries bigint[], error text, retry_after interval default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
  batch bigint;
  aside int;
begin
  if coalesce(cardinality(deliveries), 0) = 0 or error is null or retry_after not between interval '0' and interval '1000 years' then
    raise exception using errcode = 'TL422', message = format('expected at least one delivery, an error and a wait that is not negative and at most 1000 years; got %s, error %s, wait %s.',
      trunkline._counted(coalesce(cardinality(deliveries), 0), 'delivery', 'deliveries'), coalesce(quote_literal(left(error, 100)), 'NULL'), coalesce(retry_after::text, 'NULL'));
  end if;
  perform trunkline._owner_check(trunkline._broker_resource(reader.group_id, handler, lane), epoch);
  if retry_after is not null then
    batch := nextval('trunkline.broker_retry_retry_seq');
  end if;
  aside := trunkline._broker_set_aside(reader, lane, deliveries, case when retry_after is null then 'dead' else 'waiting' end,
    batch, clock_timestamp() + retry_after, trunkline._broker_error(error));
  if aside <> (select count(distinct d) from unnest(deliveries) d) then
    raise exception using errcode = 'TL410', message = format('of %s that failed only %s still there.', trunkline._counted(cardinality(deliveries), 'event'), trunkline._counted(aside, 'is', 'are')),
      hint = 'Lengthen broker.hold and broker.hold_bytes, or handle events sooner.', detail = jsonb_build_object('deliveries', deliveries)::text;
  end if;
  return batch;
end $$;
comment on function trunkline.broker_fail(text, text, int, bigint, bigint[], text, interval) is
  'Set aside events that a handler failed with: for another try, or as dead letters.';
select trunkline._access('broker_fail(text, text, int, bigint, bigint[], text, interval)', 'reader');
