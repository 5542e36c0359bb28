/* Give a new partition its triggers if that takes no longer than maintain.lock_timeout.  Without the right to do it a
   gap is noted, once: the owner has to call tube_attach() again.  Returns whether it was done. */
create or replace function trunkline._tube_trigger_try(attached trunkline.tube_table, child regclass)
returns boolean language plpgsql as $$
declare
  complaint text := format('table %s has no triggers, and the owner of schema trunkline may not make them: its owner has to call tube_attach() again.', child);
begin
  perform trunkline._tube_lock_once(array[child], 'share row exclusive', trunkline._setting('maintain.lock_timeout')::interval);
  perform trunkline._tube_trigger_put(attached, child, true);
  return true;
exception
  when lock_not_available then
    return false;
  when insufficient_privilege then
    if not exists (select from trunkline.tube_gap g where g.attachment = attached.attachment and g.error = complaint) then
      perform trunkline._tube_note_gap(attached.attachment, complaint);
    end if;
    return false;
end $$;
