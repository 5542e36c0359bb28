/* Run a query that holds conditions of users: (place, subscription) of what matches.  Belongs to trunkline_matcher, a
   role that may read the events at hand and the live subscriptions and nothing else: see _grant_conditions().
   STABLE: it sees what the statement sees that calls it.  Conditions think in UTC.  Subscriptions are looked up by index
   for each event, whatever statistics say. */
create or replace function trunkline._condition_run(statement text)
returns table (place int, subscription bigint) language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, YMD' set intervalstyle = 'postgres'
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  return query execute statement;
end $$;
