/* Make an unlogged table of these column definitions that only the caller may write and read.  Runs as the owner. */
create or replace function trunkline._spark_staging_create(kind text, definition text)
returns bigint language plpgsql as $$
declare
  maker text := trunkline._caller();
  number bigint;
begin
  insert into trunkline.spark_staging (kind, maker) values (_spark_staging_create.kind, maker) returning staging_id into number;
  execute format('create unlogged table trunkline.spark_staging_%s (%s) with (autovacuum_enabled = false)', number, definition);
  execute format('grant select, insert on trunkline.spark_staging_%s to %I', number, maker);
  return number;
end $$;
