/* A text that changes with every commit of the server that wrote something: while it stays the same, there is nothing
   new to find in any table. */
create or replace function trunkline._commits_seen()
returns text language sql stable as $$ select pg_current_snapshot()::text $$;
select trunkline._access('_commits_seen()', 'reader');
