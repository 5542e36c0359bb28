/* Take the triggers and functions of attachments away, all or none, as _tube_trigger() puts them.  Tables that are
   gone have taken theirs with them. */
create or replace function trunkline._tube_untrigger(leaving trunkline.tube_table[])
returns void language plpgsql as $$
declare
  hook record;
  attached trunkline.tube_table;
begin
  select c.oid::regclass as relation, c.relowner::regrole as owner into hook
    from unnest(leaving) l join pg_class c on c.oid = l.relation where not pg_has_role(c.relowner, 'usage') limit 1;
  if found then
    raise exception using errcode = 'TL403', message = format('table %s belongs to %s: only its owner may detach it.', hook.relation, hook.owner);
  end if;
  perform trunkline._hook_lock(array(
    select distinct g.tgrelid::regclass from unnest(leaving) l join pg_trigger g on g.tgname like format(E'trunkline\\_tube\\_%s\\_%%', l.attachment)
     order by 1), 'access exclusive', 'tube.attach');
  foreach attached in array leaving loop
    for hook in select g.tgname, g.tgrelid::regclass as child from pg_trigger g
                 where g.tgname like format(E'trunkline\\_tube\\_%s\\_%%', attached.attachment) loop
      execute format('drop trigger %I on %s', hook.tgname, hook.child);
    end loop;
    perform trunkline._hook_function_drop('trunkline_tube_' || attached.attachment);
  end loop;
end $$;
select trunkline._access('_tube_untrigger(trunkline.tube_table[])', 'writer');
