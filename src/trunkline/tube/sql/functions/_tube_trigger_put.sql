/* Put the triggers of an attachment on one table, which the caller has locked.  A table that comes late and holds
   rows already may have been written to unseen: that is noted as a gap. */
create or replace function trunkline._tube_trigger_put(attached trunkline.tube_table, child regclass, late boolean)
returns void language plpgsql as $$
declare
  place text := trunkline._tube_function_name(attached);
  event record;
  filled boolean := false;
begin
  for event in values ('insert', 'referencing new table as new_rows'), ('update', 'referencing old table as old_rows new table as new_rows'),
                      ('delete', 'referencing old table as old_rows'), ('truncate', '') loop
    execute format('create or replace trigger %I after %s on %s %s for each statement execute function %s()',
      format('trunkline_tube_%s_%s', attached.attachment, event.column1), event.column1, child, event.column2, place);
  end loop;
  perform trunkline._tube_hook_put(attached.attachment, child);
  if late then
    execute format('select exists (select from only %s)', child) into filled;
  end if;
  if filled then
    perform trunkline._tube_note_gap(attached.attachment, format('table %s held rows before it had its triggers.', child));
  end if;
end $$;
select trunkline._access('_tube_trigger_put(trunkline.tube_table, regclass, boolean)', 'writer');
