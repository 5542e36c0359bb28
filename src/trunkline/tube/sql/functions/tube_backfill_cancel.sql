/* Give up the backfills of a tube that are under way.  What they emitted is still delivered; gaps that they were to
   close stay.  Returns how many. */
create or replace function trunkline.tube_backfill_cancel(tube text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  given_up bigint;
  changed int := 0;
begin
  perform trunkline._tube_may(present.tube, 'append');
  for given_up in
    update trunkline.tube_backfill b set status = 'cancelled', finished_at = clock_timestamp(), waits_for = null
      from trunkline.tube_table a
     where a.attachment = b.attachment and a.tube_id = present.tube_id and b.status in ('running', 'paused', 'finishing')
    returning b.backfill
  loop
    update trunkline.tube_gap g set backfill = null where g.backfill = given_up;
    changed := changed + 1;
  end loop;
  return changed;
end $$;
comment on function trunkline.tube_backfill_cancel(text) is 'Give up the backfills of a tube that are under way.';
select trunkline._access('tube_backfill_cancel(text)', 'writer');
