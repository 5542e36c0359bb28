/* Lock a backfill for one step; NULLs when another works on it.  TL404 when there is none. */
create or replace function trunkline._tube_backfill_take(backfill bigint)
returns trunkline.tube_backfill language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  work trunkline.tube_backfill;
begin
  perform trunkline._lock_briefly();
  if not exists (select from trunkline.tube_backfill b where b.backfill = _tube_backfill_take.backfill) then
    perform trunkline._raise('TL404', format('there is no backfill %s.', backfill));
  end if;
  perform trunkline._tube_attachment_may(b.attachment, 'consume') from trunkline.tube_backfill b where b.backfill = _tube_backfill_take.backfill;
  select b.* into work from trunkline.tube_backfill b where b.backfill = _tube_backfill_take.backfill
     and (b.stepped_at is null or b.stepped_at + b.throttle <= clock_timestamp()) for no key update skip locked;
  return work;
end $$;
select trunkline._access('_tube_backfill_take(bigint)', 'reader');
