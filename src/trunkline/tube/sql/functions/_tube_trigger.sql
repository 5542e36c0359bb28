/* Put the triggers of an attachment on its table and on every partition, for writes that name a partition.  Each try
   makes writers wait no longer than tube.attach_lock_timeout; TL409 when tube.attach_patience is over. */
create or replace function trunkline._tube_trigger(attached trunkline.tube_table)
returns void language plpgsql as $$
declare
  place text := trunkline._tube_function_name(attached);
  child regclass;
  event record;
begin
  for child in select u from trunkline._tube_untriggered(attached) u loop
    perform trunkline._tube_lock(child, 'share row exclusive');
    for event in values ('insert', 'referencing new table as new_rows'), ('update', 'referencing old table as old_rows new table as new_rows'),
                        ('delete', 'referencing old table as old_rows'), ('truncate', '') loop
      execute format('create or replace trigger %I after %s on %s %s for each statement execute function %s()',
        format('trunkline_tube_%s_%s', attached.attachment, event.column1), event.column1, child, event.column2, place);
    end loop;
  end loop;
end $$;
select trunkline._access('_tube_trigger(trunkline.tube_table)', 'writer');
