/* Give the statements to come in this transaction the time that a condition may take: broker.condition_timeout. */
create or replace function trunkline._broker_limit()
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return set_config('statement_timeout', ceil(1000 * extract(epoch from trunkline._setting('broker.condition_timeout')::interval))::int::text, true);
end $$;
select trunkline._access('_broker_limit()', 'admin');
