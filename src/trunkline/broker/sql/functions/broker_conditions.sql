/* Distinct conditions: as the server understood them, how matches are found, and how many subscriptions are matched with
   each of them, catch up, or are in quarantine. */
create or replace function trunkline.broker_conditions()
returns table (condition_id int, kind text, condition text, expression text, way text, live bigint, late bigint, quarantined bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select c.condition_id, c.kind, c.condition, c.expression, case when c.event_key is null then 'scan' else 'index' end,
         count(*) filter (where s.quarantined_at is null and s.caught_up_to is null),
         count(*) filter (where s.quarantined_at is null and s.caught_up_to is not null), count(s.quarantined_at)
    from trunkline.broker_condition c join trunkline.broker_subscription s using (condition_id) group by c.condition_id order by c.condition_id;
$$;
comment on function trunkline.broker_conditions() is 'Distinct conditions and how many subscriptions have them.';
select trunkline._access('broker_conditions()', 'reader');
