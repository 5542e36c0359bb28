/* Since when the server can have sessions: its last start, or recovery from a crash, which resets statistics. */
create or replace function trunkline._sessions_since()
returns timestamptz language sql stable as $$
  select greatest(pg_postmaster_start_time(), (select a.stats_reset from pg_stat_archiver a));
$$;
