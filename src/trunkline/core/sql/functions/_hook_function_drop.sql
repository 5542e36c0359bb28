/* Drop trigger functions of a name that no trigger calls; one of somebody else is left. */
create or replace function trunkline._hook_function_drop(name text)
returns void language plpgsql as $$
declare
  unused regprocedure;
begin
  for unused in select p.oid from pg_proc p
                 where p.proname = name and p.prorettype = 'trigger'::regtype
                   and not exists (select from pg_trigger g where g.tgfoid = p.oid) loop
    execute format('drop function %s', unused);
  end loop;
exception when insufficient_privilege then
  null;
end $$;
select trunkline._access('_hook_function_drop(text)', 'writer');
