/* The number that the next batch of an application has: one more than the highest in the ledger, 0 for the first. */
create or replace function trunkline.spark_next_batch(app text)
returns bigint language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(l.batch) + 1, 0) from trunkline.spark_ledger l where l.app = $1;
$$;
comment on function trunkline.spark_next_batch(text) is 'The number that the next batch of an application has.';
select trunkline._access('spark_next_batch(text)', 'reader');
