/* Mark an attachment as ended; its backfill ends with it. */
create or replace function trunkline._tube_table_end(attachment int)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._tube_attachment_may($1, 'manage', own => true);
  update trunkline.tube_backfill b set status = 'cancelled', finished_at = clock_timestamp()
   where b.attachment = $1 and b.status in ('running', 'paused', 'finishing');
  update trunkline.tube_table a set detached_at = clock_timestamp() where a.attachment = $1;
$$;
select trunkline._access('_tube_table_end(int)', 'writer');
