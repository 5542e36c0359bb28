/* A duty of maintain(): a table with a gap is backfilled, unless a backfill of it is under way or ended within
   tube.gap_pause: where every write fails to be captured, backfills would follow each other without end.
   A gap that stays open, because what is written to a part of the table is not seen, is left to people. */
create or replace function trunkline.tube_gaps_close()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  gap record;
begin
  for gap in
    select distinct t.tube, a.relation
      from trunkline.tube_gap g join trunkline.tube_table a using (attachment) join trunkline.tube t using (tube_id)
     where g.backfill is null and a.detached_at is null
       and exists (select from pg_class c where c.oid = a.relation)
       and not exists (select from pg_inherits i where i.inhrelid = a.relation)
       and not exists (select from trunkline._tube_untriggered(a) u)
       and not exists (select from trunkline._tube_disabled(a) d)
       and not exists (
         select from trunkline.tube_backfill b
          where b.attachment = a.attachment
            and (b.status in ('running', 'paused', 'finishing') or b.finished_at > clock_timestamp() - trunkline._setting('tube.gap_pause')::interval))
  loop
    perform trunkline.tube_backfill_schedule(gap.tube, gap.relation);
  end loop;
  return false;
end $$;
comment on function trunkline.tube_gaps_close() is 'Tables with a gap are backfilled; a duty of maintain().';
select trunkline._access('tube_gaps_close()', 'admin');
insert into trunkline.duty (duty, rank) values ('tube_gaps_close', 75) on conflict do nothing;
