/* Batches of a lane that are due for another try, the longest due first: the same events, how often they were tried, and
   every error.  Takes nothing: settle each with broker_retried().  Errors: TL404, TL422, TL423. */
create or replace function trunkline.broker_retries(group_name text, handler text, lane int, epoch bigint, max_batches int default 1)
returns table (batch bigint, attempts int, errors jsonb, up_to bigint, event_position bigint, event_id bigint, topic text, key text,
               payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  readable int[] := trunkline._watch_readable(trunkline._caller());
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
  owned text := trunkline._broker_resource(reader.group_id, handler, lane);
begin
  if max_batches is null or max_batches < 1 then
    raise exception using errcode = 'TL422', message = format('max_batches is at least 1, got %s.', coalesce(max_batches::text, 'NULL'));
  end if;
  if not exists (select from trunkline.owner o cross join trunkline._incarnation_present() i
                  where o.resource = owned and o.epoch = broker_retries.epoch and o.process is not null and o.epoch > trunkline._epoch_floor(i.incarnation)) then
    perform trunkline._owner_over(owned, epoch);
  end if;
  return query
    with due as (
      select r.batch, min(r.due_at) as due_at from trunkline.broker_retry r
       where r.group_id = reader.group_id and r.handler = reader.handler and r.lane = broker_retries.lane
         and r.status = 'waiting' and r.due_at <= clock_timestamp() and (r.watch is null or coalesce(r.watch = any (readable), true))
       group by r.batch order by 2, 1 limit max_batches)
    select r.batch, r.attempts, r.errors, r.delivery, r.event_position, r.event_id, r.topic, r.key,
           r.payload, r.metadata, r.at, r.subscriptions
      from due d join trunkline.broker_retry r
        on r.group_id = reader.group_id and r.handler = reader.handler and r.lane = broker_retries.lane
       and r.status = 'waiting' and r.due_at <= clock_timestamp() and r.batch = d.batch
     order by d.due_at, r.batch, r.delivery;
end $$;
comment on function trunkline.broker_retries(text, text, int, bigint, int) is 'Batches of a lane that are due for another try.';
select trunkline._access('broker_retries(text, text, int, bigint, int)', 'reader');
