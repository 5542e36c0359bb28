/* Where the capture function of an attachment lives: beside its table. */
create or replace function trunkline._tube_function_name(attached trunkline.tube_table)
returns text language sql stable as $$
  select format('%s.%I', c.relnamespace::regnamespace, 'trunkline_tube_' || attached.attachment)
    from pg_class c where c.oid = attached.relation;
$$;
select trunkline._access('_tube_function_name(trunkline.tube_table)', 'writer');
