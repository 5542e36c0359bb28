/* Write the trigger function of a watched table unless it is there as it should be.  It is in the schema of the table, belongs to
   the owner of the table and runs as the owner, whoever writes: writers need no right, conditions of users never run as the
   owner of schema trunkline, and nobody else can call it, so that nobody can forge an event. */
create or replace function trunkline._broker_watch_generate(watched trunkline.broker_watched_table)
returns void language plpgsql as $$
declare
  place text := trunkline._broker_watch_function(watched);
  owner regrole;
  home regnamespace;
begin
  if trunkline._broker_watch_generated(watched) then
    return;
  end if;
  select c.relowner, c.relnamespace into owner, home from pg_class c where c.oid = watched.relation;
  if exists (select from pg_proc p where p.oid = to_regprocedure(place || '()') and p.pronamespace <> home) then
    execute format('alter function %s() set schema %s', place, home);  -- the table was moved
    place := trunkline._broker_watch_function(watched);
  end if;
  execute format('create or replace function %s() returns trigger language plpgsql security definer %s as %L', place,
    (select string_agg(format('set %s to %s', split_part(s, '=', 1), case when s ~ '^(search_path|DateStyle)' then split_part(s, '=', 2) else quote_literal(split_part(s, '=', 2)) end), ' ')
       from unnest(trunkline._broker_watch_settings(watched)) s), trunkline._broker_watch_source(watched));
  execute format('revoke all on function %s() from public', place);
  execute format('alter function %s() owner to %s', place, owner);
end $$;
select trunkline._access('_broker_watch_generate(trunkline.broker_watched_table)', 'writer');
