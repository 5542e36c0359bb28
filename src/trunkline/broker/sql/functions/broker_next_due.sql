/* When the next event that waits for its time is due; NULL when none waits. */
create or replace function trunkline.broker_next_due()
returns timestamptz language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select min(d.deliver_at) from trunkline.event_due d;
$$;
comment on function trunkline.broker_next_due() is 'When the next event that waits for its time is due.';
select trunkline._access('broker_next_due()', 'reader');
