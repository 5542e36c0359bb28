/* A duty of maintain(): an attached table that was dropped leaves the tube; downstream its rows go as after a truncate.
   So do those of a partition that was dropped or detached.  New partitions get their triggers, one at a time.  A table
   that became a part of another has a gap, and so has one whose triggers are disabled.
   Attachments that ended leave when nothing of them can be queued any more.  Returns whether there is more. */
create or replace function trunkline.tube_tables_check()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  attached trunkline.tube_table;
  child regclass;
begin
  for attached in select a.* from trunkline.tube_table a
                   where a.detached_at is null and not exists (select from pg_class c where c.oid = a.relation) for update skip locked loop
    perform trunkline._tube_put_control(attached, 'truncate', null, 0);
    perform trunkline._tube_table_end(attached.attachment);
    perform trunkline._hook_function_drop('trunkline_tube_' || attached.attachment);
  end loop;
  for attached in select a.* from trunkline.tube_table a where a.detached_at is null loop
    delete from trunkline.tube_hook h where h.attachment = attached.attachment and not exists (select from trunkline._hook_tree(attached.relation) r where r = h.relation);
    if found then
      perform trunkline._tube_put_control(attached, 'truncate', null, 0);
    end if;
    if exists (select from pg_inherits i where i.inhrelid = attached.relation) then
      perform trunkline._tube_note_once(attached.attachment, format('table %s became a part of another: what is written there is not seen. Attach that one.', attached.relation));
    end if;
    for child in select d from trunkline._tube_disabled(attached) d loop
      perform trunkline._tube_note_once(attached.attachment, format('triggers of table %s are disabled: what is written there is not seen. Enable them.', child));
    end loop;
    for child in select u from trunkline._tube_untriggered(attached) u loop
      if trunkline._tube_trigger_try(attached, child) then
        return true;
      end if;
    end loop;
  end loop;
  delete from trunkline.tube_table a
   where a.detached_at < clock_timestamp() - interval '1 day'
     and not exists (select from trunkline.tube_entry e where e.attachment = a.attachment)
     and not exists (select from trunkline.tube_parked p where p.attachment = a.attachment);
  return false;
end $$;
comment on function trunkline.tube_tables_check() is 'Attached tables that were dropped leave their tubes, new partitions get their triggers; a duty of maintain().';
select trunkline._access('tube_tables_check()', 'admin');
insert into trunkline.duty (duty, rank) values ('tube_tables_check', 70) on conflict do nothing;
