/* Mend one trigger of a watched table if that takes no longer than maintain.lock_timeout.  Without the right to do it the owner has
   to watch the table again, and is told so; whatever else is wrong with one table is a warning and holds up no other.  Returns whether
   it was done. */
create or replace function trunkline._broker_watch_trigger_try(watched trunkline.broker_watched_table, child regclass, operation text, there boolean)
returns boolean language plpgsql as $$
begin
  perform trunkline._hook_lock_once(array[child], case when there then 'access exclusive' else 'share row exclusive' end, trunkline._setting('maintain.lock_timeout')::interval);
  perform trunkline._broker_watch_trigger_put(watched, child, operation, there);
  return true;
exception
  when lock_not_available then
    return false;
  when insufficient_privilege then
    update trunkline.broker_watched_table w
       set fault = format('the triggers of %s are not as they should be, and the owner of schema trunkline may not change them: its owner has to call broker_watch() again.', child)
     where w.watch = watched.watch and w.fault is null;
    return false;
  when others then  -- a part that has just gone, or whatever is wrong with it: the next one need not wait for that
    raise warning 'the triggers of %, a part of the watched table %, could not be mended: %', child, watched.relation, sqlerrm;
    return false;
end $$;
