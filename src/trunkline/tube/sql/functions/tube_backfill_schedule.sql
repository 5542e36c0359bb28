/* Emit every row of a table (or of all tables of a tube) anew, in chunks, behind live changes.  order_by names a column
   that is not null; it should have an index with the key.  A backfill that is under way is returned as it is.
   Gaps that were noted before are closed when it is done.  After it, downstream documents that are older than its start are checked and removed if their row is gone.
   Errors: TL404, TL422 unknown or nullable column, chunk size. */
create or replace function trunkline.tube_backfill_schedule(
  tube text, relation regclass default null, order_by text default null, chunk int default 10000, throttle interval default '0')
returns setof trunkline.tube_backfill language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  attached trunkline.tube_table;
  active trunkline.tube_backfill;
begin
  perform trunkline._tube_may(present.tube, 'append');
  if chunk is null or chunk not between 1 and 1000000 then
    perform trunkline._raise('TL422', format('chunk must be between 1 and 1000000, got %s.', coalesce(chunk::text, 'NULL')));
  elsif relation is not null and (trunkline._tube_table_row(present.tube_id, relation)).attachment is null then
    perform trunkline._raise('TL404', format('table %s is not attached to tube "%s".', relation, tube), 'Attach it with tube_attach().');
  elsif throttle is null or throttle < interval '0' or throttle > interval '1000 years' then
    perform trunkline._raise('TL422', format('throttle must not be negative and at most 1000 years, got %s.', coalesce(throttle::text, 'NULL')));
  end if;
  for attached in select a.* from trunkline._tube_tables(present.tube_id) a where tube_backfill_schedule.relation is null or a.relation = tube_backfill_schedule.relation loop
    if order_by is not null and not exists (
      select from pg_attribute c where c.attrelid = attached.relation and c.attname = order_by and c.attnum > 0 and not c.attisdropped and c.attnotnull) then
      perform trunkline._raise('TL422', format('table %s has no column "%s" that is not null.', attached.relation, order_by), 'Order by a column that is not null, best one with an index.');
    end if;
    insert into trunkline.tube_backfill as b (attachment, status, order_by, chunk, throttle, keys_estimate, start_incarnation, start_lsn, start_xid)
    select attached.attachment, 'running', tube_backfill_schedule.order_by, tube_backfill_schedule.chunk, tube_backfill_schedule.throttle,
           greatest((select sum(c.reltuples) from pg_class c where c.oid in (select t.relid from pg_partition_tree(attached.relation) t union select attached.relation)), 0),
           (trunkline._incarnation_row()).incarnation, pg_current_wal_insert_lsn(), pg_current_xact_id()
    on conflict (attachment) where status in ('running', 'paused', 'finishing') do nothing
    returning b.* into active;
    if found then
      update trunkline.tube_gap g set backfill = active.backfill where g.attachment = attached.attachment;
      perform trunkline._tube_put_control(attached, 'backfill_start', jsonb_build_object('backfill', active.backfill, 'relation', attached.relation_name), 1);
    else
      select b.* into active from trunkline.tube_backfill b where b.attachment = attached.attachment and b.status in ('running', 'paused', 'finishing');
    end if;
    return next active;
  end loop;
end $$;
comment on function trunkline.tube_backfill_schedule(text, regclass, text, int, interval) is 'Emit every row of a table anew, in chunks, behind live changes.';
select trunkline._access('tube_backfill_schedule(text, regclass, text, int, interval)', 'writer');
