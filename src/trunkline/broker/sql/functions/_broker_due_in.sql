/* In how many seconds the next event that waits for its time is due; NULL when none waits. */
create or replace function trunkline._broker_due_in()
returns float8 language sql security definer set search_path = pg_catalog, pg_temp as $$
  select extract(epoch from trunkline.broker_next_due() - clock_timestamp())::float8;
$$;
select trunkline._access('_broker_due_in()', 'reader');
