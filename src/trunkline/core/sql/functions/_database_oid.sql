/* The database that this session is in.  Declared immutable for the reason that _system_identifier() is. */
create or replace function trunkline._database_oid()
returns oid language sql immutable as $$
  select d.oid from pg_database d where d.datname = current_database();
$$;
