/* Make a staging table for record batches, shaped like spark_batch; only the caller may write and read it.
   Returns its number. */
create or replace function trunkline.spark_stage_batches()
returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._spark_staging_create('batches', 'like trunkline.spark_batch including storage');
$$;
comment on function trunkline.spark_stage_batches() is 'Make an unlogged staging table of record batches for the caller alone; returns its number.';
select trunkline._access('spark_stage_batches()', 'writer');
