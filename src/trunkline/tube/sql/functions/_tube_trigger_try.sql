/* Give a new partition its triggers if that takes no longer than maintain.lock_timeout.  Without the right to do it, or when their
   function is gone with the schema that it was in, a gap is noted, once: the owner has to call tube_attach() again.  Returns whether
   it was done. */
create or replace function trunkline._tube_trigger_try(attached trunkline.tube_table, child regclass)
returns boolean language plpgsql as $$
begin
  perform trunkline._hook_lock_once(array[child], 'share row exclusive', trunkline._setting('maintain.lock_timeout')::interval);
  perform trunkline._tube_trigger_put(attached, child, true);
  return true;
exception
  when lock_not_available then
    return false;
  when insufficient_privilege then
    perform trunkline._tube_note_once(attached.attachment,
      format('table %s has no triggers, and the owner of schema trunkline may not make them: its owner has to call tube_attach() again.', child));
    return false;
  when undefined_function then
    perform trunkline._tube_note_once(attached.attachment, format('table %s has lost its triggers and their function: its owner has to call tube_attach() again.', child));
    return false;
end $$;
