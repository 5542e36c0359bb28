/* A duty of maintain(): drop one staging table that its driver left behind longer than spark.staging_retention ago.
   One that a task still writes to is not waited for. */
create or replace function trunkline.spark_staging_drop()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  number bigint;
begin
  perform set_config('lock_timeout', (1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
  for number in
    select s.staging_id from trunkline.spark_staging s
     where s.created_at < clock_timestamp() - trunkline._setting('spark.staging_retention')::interval
     order by s.staging_id for update skip locked
  loop
    begin
      execute format('drop table if exists trunkline.spark_staging_%s', number);
      delete from trunkline.spark_staging s where s.staging_id = number;
      return true;
    exception when lock_not_available then
      perform set_config('lock_timeout', '1ms', true);
    end;
  end loop;
  return false;
end $$;
comment on function trunkline.spark_staging_drop() is 'Drop one staging table that was left behind; a duty of maintain().';
select trunkline._access('spark_staging_drop()', 'admin');
insert into trunkline.duty (duty, rank) values ('spark_staging_drop', 60) on conflict do nothing;
