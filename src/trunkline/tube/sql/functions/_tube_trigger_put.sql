/* Put the triggers of an attachment on one table, which the caller has locked. */
create or replace function trunkline._tube_trigger_put(attached trunkline.tube_table, child regclass)
returns void language plpgsql as $$
declare
  place text := trunkline._tube_function_name(attached);
  event record;
  filled boolean;
begin
  for event in values ('insert', 'referencing new table as new_rows'), ('update', 'referencing old table as old_rows new table as new_rows'),
                      ('delete', 'referencing old table as old_rows'), ('truncate', '') loop
    execute format('create or replace trigger %I after %s on %s %s for each statement execute function %s()',
      format('trunkline_tube_%s_%s', attached.attachment, event.column1), event.column1, child, event.column2, place);
  end loop;
  if trunkline._tube_hook_put(attached.attachment, child) then
    execute format('select exists (select from only %s)', child) into filled;
    if filled then
      perform trunkline._tube_note_gap(attached.attachment, format('table %s was written to before it had its triggers.', child));
    end if;
  end if;
end $$;
select trunkline._access('_tube_trigger_put(trunkline.tube_table, regclass)', 'writer');
