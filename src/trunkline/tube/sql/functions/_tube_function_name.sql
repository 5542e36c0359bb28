/* The capture function of an attachment: the one that its triggers call; before there are any, beside the table. */
create or replace function trunkline._tube_function_name(attached trunkline.tube_table)
returns text language sql stable as $$
  select format('%I.%I', n.nspname, 'trunkline_tube_' || attached.attachment)
    from pg_namespace n
   where n.oid = coalesce(
     (select p.pronamespace from pg_trigger g join pg_proc p on p.oid = g.tgfoid
       where g.tgrelid = attached.relation and g.tgname like format(E'trunkline\\_tube\\_%s\\_%%', attached.attachment) limit 1),
     (select c.relnamespace from pg_class c where c.oid = attached.relation));
$$;
select trunkline._access('_tube_function_name(trunkline.tube_table)', 'writer');
