/* Write backfill_end once every transaction that was open at the start is over, prepared ones too; until then note
   whom it waits for.  Gaps that were there at the start are closed. */
create or replace function trunkline._tube_backfill_finish(work trunkline.tube_backfill)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  attached trunkline.tube_table := trunkline._tube_attachment(work.attachment);
begin
  perform trunkline._tube_attachment_may(work.attachment, 'consume');
  -- not the xmax of a snapshot: the newest of the open transactions is not below it.  Of transactions of another server,
  -- from which this database was restored, none is open
  if pg_snapshot_xmin(pg_current_snapshot()) <= work.start_xid
     and trunkline._xid_space() = (select i.xid_space from trunkline.incarnation i where i.incarnation = work.start_incarnation) then
    -- xids of sessions have 32 bits: those that are in this snapshot and older than the start are meant
    update trunkline.tube_backfill b set stepped_at = clock_timestamp(), waits_for = coalesce((
      select string_agg(w.name, ', ') from (
        select (x.x::text::numeric % 4294967296)::text as xid from pg_snapshot_xip(pg_current_snapshot()) x where x.x < work.start_xid) open_one
        join lateral (
          select format('pid %s (%s, open for %s)', a.pid, concat_ws(' ', a.usename, nullif(a.application_name, '')), date_trunc('second', clock_timestamp() - a.xact_start)) as name
            from pg_stat_activity a where a.backend_xid::text = open_one.xid
          union all
          select format('prepared transaction %s', p.gid) from pg_prepared_xacts p where p.transaction::text = open_one.xid) w on true), 'an open transaction')
     where b.backfill = work.backfill;
    return false;
  end if;
  perform trunkline._tube_put_control(attached, 'backfill_end', jsonb_build_object('backfill', work.backfill, 'relation', attached.relation_name,
    'generation', trunkline._generation(work.start_incarnation), 'lsn', work.start_lsn::text), 1);
  delete from trunkline.tube_gap g where g.backfill = work.backfill;
  update trunkline.tube_backfill b set status = 'done', finished_at = clock_timestamp(), waits_for = null where b.backfill = work.backfill;
  return false;
end $$;
select trunkline._access('_tube_backfill_finish(trunkline.tube_backfill)', 'reader');
