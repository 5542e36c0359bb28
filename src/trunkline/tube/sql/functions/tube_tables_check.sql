/* A duty of maintain(): an attached table that was dropped leaves the tube; downstream its rows go as after a truncate.
   Attachments that ended leave when nothing of them can be queued any more. */
create or replace function trunkline.tube_tables_check()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  attached trunkline.tube_table;
begin
  for attached in select a.* from trunkline.tube_table a
                   where a.detached_at is null and not exists (select from pg_class c where c.oid = a.relation) for update skip locked loop
    perform trunkline._tube_put_control(attached, 'truncate', null, 0);
    perform trunkline._tube_table_end(attached.attachment);
  end loop;
  delete from trunkline.tube_table a
   where a.detached_at < clock_timestamp() - interval '1 day'
     and not exists (select from trunkline.tube_entry e where e.attachment = a.attachment);
  return false;
end $$;
comment on function trunkline.tube_tables_check() is 'An attached table that was dropped leaves the tube; a duty of maintain().';
select trunkline._access('tube_tables_check()', 'admin');
insert into trunkline.duty (duty, rank) values ('tube_tables_check', 70) on conflict do nothing;
