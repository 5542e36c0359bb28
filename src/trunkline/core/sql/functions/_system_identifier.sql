/* The identifier of this server.  Declared immutable so that a cached plan holds it: a plan lives no longer than its
   session, a session no longer than its server, and nobody can forge it, as one could a setting. */
create or replace function trunkline._system_identifier()
returns bigint language sql immutable as $$
  select (pg_control_system()).system_identifier;
$$;
