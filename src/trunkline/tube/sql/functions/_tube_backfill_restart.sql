/* The backfill of an attachment that is under way begins anew: what was emitted was told by other keys, shards or conditions. */
create or replace function trunkline._tube_backfill_restart(attachment int)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._tube_attachment_may($1, 'manage', own => true);
  update trunkline.tube_backfill b
     set status = case b.status when 'finishing' then 'running' else b.status end, reached = null, keys_done = 0, stepped_at = null, waits_for = null,
         start_incarnation = trunkline.incarnation(), start_lsn = pg_current_wal_insert_lsn(), start_xid = pg_current_xact_id()
   where b.attachment = $1 and b.status in ('running', 'paused', 'finishing');
$$;
comment on function trunkline._tube_backfill_restart(int) is 'The backfill of an attachment that is under way begins anew.';
select trunkline._access('_tube_backfill_restart(int)', 'writer');
