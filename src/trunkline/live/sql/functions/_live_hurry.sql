/* Let the statements that follow in this transaction take no longer than policies may: live.judge_timeout. */
create or replace function trunkline._live_hurry()
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  select set_config('statement_timeout', ceil(extract(epoch from trunkline._setting('live.judge_timeout')::interval) * 1000)::bigint::text, true);
$$;
select trunkline._access('_live_hurry()', 'reader');
