/* The name of a table with its schema, quoted where it must be, whatever quote_all_identifiers says. */
create or replace function trunkline._hook_name(relation regclass)
returns text language sql stable
set quote_all_identifiers = off as $$
  select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
$$;
select trunkline._access('_hook_name(regclass)', 'reader');
