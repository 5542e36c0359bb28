/* Drop staging tables of the caller; those that are gone already do not matter.  Returns how many were dropped.
   In the transaction that moved their rows they go together with it. */
create or replace function trunkline.spark_unstage(numbers bigint[])
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  number bigint;
  dropped int := 0;
begin
  for number in
    delete from trunkline.spark_staging s where s.staging_id = any (numbers) and s.maker = trunkline._caller() returning s.staging_id
  loop
    execute format('drop table if exists trunkline.spark_staging_%s', number);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $$;
comment on function trunkline.spark_unstage(bigint[]) is 'Drop staging tables of the caller; returns how many there were.';
select trunkline._access('spark_unstage(bigint[])', 'writer');
