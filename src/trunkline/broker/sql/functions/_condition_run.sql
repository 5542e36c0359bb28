/* Run a query that holds conditions of users: (place, subscription) of what matches.  batch is its $1.  Belongs to trunkline_matcher, a
   role that may read the events at hand and the live subscriptions and nothing else: see _grant_conditions().
   STABLE: it sees what the statement sees that calls it.  Conditions think in UTC.  Subscriptions are looked up by index
   for each event, whatever statistics say.
   TL403 when it belongs to anybody else, as after a restore into a server that has no such role. */
create or replace function trunkline._condition_run(statement text, batch trunkline.broker_match_event[] default null)
returns table (place int, subscription bigint) language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, YMD' set intervalstyle = 'postgres' set standard_conforming_strings = on
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  if current_user <> 'trunkline_matcher' then
    raise exception using errcode = 'TL403', message = format('a condition in SQL runs as trunkline_matcher, not as %s.', current_user),
      hint = 'Make the role, then select trunkline.roles_grant().';
  end if;
  return query execute statement using batch;
end $$;
