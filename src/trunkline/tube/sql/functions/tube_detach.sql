/* Stop capturing a table.  What is queued is still delivered.  Returns whether it was attached. */
create or replace function trunkline.tube_detach(tube text, relation regclass)
returns boolean language plpgsql as $$
declare
  present trunkline.tube_table := trunkline._tube_table_row((trunkline._tube_row(tube)).tube_id, relation);
  hook record;
begin
  if present.attachment is null then
    return false;
  end if;
  perform trunkline._tube_lock(relation, 'access exclusive');
  for hook in select g.tgname, g.tgrelid::regclass as child from pg_trigger g
               where g.tgname like format('trunkline\_tube\_%s\_%%', present.attachment) and g.tgparentid = 0 loop
    execute format('drop trigger if exists %I on %s', hook.tgname, hook.child);
  end loop;
  execute format('drop function if exists %s()', trunkline._tube_function_name(present));
  perform trunkline._tube_table_end(present.attachment);
  return true;
end $$;
comment on function trunkline.tube_detach(text, regclass) is 'Stop capturing a table; what is queued is still delivered.';
select trunkline._access('tube_detach(text, regclass)', 'writer');
