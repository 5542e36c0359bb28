/* Whether the ledger has this batch.  For sinks that write elsewhere and ask first. */
create or replace function trunkline.spark_written(app text, batch bigint)
returns boolean language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (select from trunkline.spark_ledger l where l.app = spark_written.app and l.batch = spark_written.batch);
$$;
comment on function trunkline.spark_written(text, bigint) is 'Whether the ledger has this batch.';
select trunkline._access('spark_written(text, bigint)', 'reader');
