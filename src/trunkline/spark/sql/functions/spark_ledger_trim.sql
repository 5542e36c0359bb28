/* A duty of maintain(): forget batches older than spark.ledger_retention, but never the newest of an application.
   The lowest that stays is marked as the floor: spark_commit() refuses what is below it. */
create or replace function trunkline.spark_ledger_trim()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  apps text[];
begin
  with gone as (
    delete from trunkline.spark_ledger l where (l.app, l.batch) in (
      select o.app, o.batch from trunkline.spark_ledger o
       where o.at < clock_timestamp() - trunkline._setting('spark.ledger_retention')::interval
         and exists (select from trunkline.spark_ledger n where n.app = o.app and n.batch > o.batch)
       order by o.app, o.batch limit 10000)
    returning l.app)
  select array_agg(distinct g.app) into apps from gone g;
  update trunkline.spark_ledger l set detail = l.detail || '{"floor": true}'
    from (select m.app, min(m.batch) as batch from trunkline.spark_ledger m where m.app = any (apps) group by m.app) lowest
   where l.app = lowest.app and l.batch = lowest.batch;
  return apps is not null;
end $$;
comment on function trunkline.spark_ledger_trim() is 'Forget batches that are older than spark.ledger_retention; a duty of maintain().';
select trunkline._access('spark_ledger_trim()', 'admin');
insert into trunkline.duty (duty, rank) values ('spark_ledger_trim', 61) on conflict do nothing;
