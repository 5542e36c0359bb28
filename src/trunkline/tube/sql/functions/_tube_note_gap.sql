/* Note that a write was let through although it could not be captured.  Any role may call it, for triggers run as the role that writes: so it
   keeps at most 100 open gaps of an attachment, each of 1000 characters.  One is enough for a backfill. */
create or replace function trunkline._tube_note_gap(attachment int, error text)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into trunkline.tube_gap (attachment, error)
  select a.attachment, left($2, 1000) from trunkline.tube_table a
   where a.attachment = $1 and a.detached_at is null
     and (select count(*) from (select from trunkline.tube_gap g where g.attachment = $1 and g.backfill is null limit 100) open_one) < 100;
$$;
select trunkline._access('_tube_note_gap(int, text)', 'public');
