/* Copy the events of deliveries into broker_retry; how many.  What is there already gets the error, if there is one, as
   one of another attempt.  TL410 when an event is no longer there. */
create or replace function trunkline._broker_set_aside(
  reader trunkline.broker_handler, lane int, deliveries bigint[], status text, batch bigint, due_at timestamptz, error jsonb)
returns int language plpgsql as $$
declare
  aside int;
begin
  insert into trunkline.broker_retry as r
    (group_id, handler, lane, delivery, batch, status, attempts, errors, due_at,
     event_id, event_position, topic, key, payload, metadata, at, subscriptions, watch)
  select reader.group_id, reader.handler, _broker_set_aside.lane, d.delivery, _broker_set_aside.batch, _broker_set_aside.status,
         (error is not null)::int, case when error is null then '[]' else jsonb_build_array(error || '{"attempt": 1}') end,
         _broker_set_aside.due_at,
         e.event_id, e.event_position, e.topic, e.key, e.payload, e.metadata, e.at, d.subscriptions, e.watch
    from trunkline._broker_deliveries(reader, _broker_set_aside.lane, deliveries) d
    join trunkline._event_rows(
      array(select p.event_position from trunkline._broker_deliveries(reader, _broker_set_aside.lane, deliveries) p)) e using (event_position)
   order by d.delivery
  on conflict on constraint broker_retry_delivery do update
    set attempts = r.attempts + excluded.attempts,
        errors = case when error is null then r.errors else r.errors || (error || jsonb_build_object('attempt', r.attempts + 1)) end,
        status = excluded.status, due_at = excluded.due_at, batch = excluded.batch
    where error is not null;
  get diagnostics aside = row_count;
  return aside;
end $$;
