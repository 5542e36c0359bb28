/* Write backfill_end once every transaction that was open at the start is over, prepared ones too; until then note
   whom it waits for. */
create or replace function trunkline._tube_backfill_finish(work trunkline.tube_backfill)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  attached trunkline.tube_table := trunkline._tube_attachment(work.attachment);
begin
  if pg_snapshot_xmin(pg_current_snapshot()) < pg_snapshot_xmax(work.start_snapshot) then
    update trunkline.tube_backfill b set stepped_at = clock_timestamp(), waits_for = coalesce((
      select string_agg(w.name, ', ') from (
        select format('pid %s (%s, open for %s)', a.pid, concat_ws(' ', a.usename, nullif(a.application_name, '')), date_trunc('second', clock_timestamp() - a.xact_start)) as name
          from pg_stat_activity a where a.backend_xid is not null and a.backend_xid::text::bigint < (pg_snapshot_xmax(work.start_snapshot)::text::bigint & 4294967295)
        union all
        select format('prepared transaction %s', p.gid) from pg_prepared_xacts p) w), 'an open transaction')
     where b.backfill = work.backfill;
    return false;
  end if;
  perform trunkline._tube_put_control(attached, 'backfill_end', jsonb_build_object('backfill', work.backfill, 'relation', attached.relation_name,
    'incarnation', work.start_incarnation, 'lsn', work.start_lsn::text), 1);
  update trunkline.tube_backfill b set status = 'done', finished_at = clock_timestamp(), waits_for = null where b.backfill = work.backfill;
  return false;
end $$;
select trunkline._access('_tube_backfill_finish(trunkline.tube_backfill)', 'reader');
