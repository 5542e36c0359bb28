/* One dead letter: the event as it was delivered, and the error of every attempt.
   The server cannot send an event with more than 1 GB as text: name the other columns then; clients do so by themselves.
   Errors: TL403, TL404. */
create or replace function trunkline.broker_dead_show(retry bigint)
returns table (retry bigint, group_name text, handler text, lane int, topic text, key text, payload jsonb, metadata jsonb, event_id bigint,
               event_position bigint, at timestamptz, subscriptions bigint[], attempts int, errors jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select r.retry, g.group_name, r.handler, r.lane, r.topic, r.key, r.payload, r.metadata, r.event_id,
         r.event_position, r.at, r.subscriptions, r.attempts, r.errors
    from trunkline._broker_dead_row($1) r join trunkline.broker_group g using (group_id)
   cross join lateral trunkline._check_may('group:' || g.group_name, 'consume');
$$;
comment on function trunkline.broker_dead_show(bigint) is 'One dead letter: the event, and the error of every attempt.';
select trunkline._access('broker_dead_show(bigint)', 'reader');
