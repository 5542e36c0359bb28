/* Is the capture function of an attachment beside its table?  When the table was moved to another schema it is not. */
create or replace function trunkline._tube_function_there(attached trunkline.tube_table)
returns boolean language sql stable as $$
  select exists (select from pg_class c join pg_proc p on p.pronamespace = c.relnamespace
                  where c.oid = attached.relation and p.oid = to_regprocedure(trunkline._tube_function_name(attached) || '()'));
$$;
select trunkline._access('_tube_function_there(trunkline.tube_table)', 'writer');
