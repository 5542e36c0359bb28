/* The timeline that this server writes.  Not kept in a plan: a pooled session outlives a promotion. */
create or replace function trunkline._timeline()
returns int language sql stable as $$
  select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int;
$$;
