/* Run stored text with the rights of a role that the text cannot leave.  The statement is given five arrays as $1 to $5 and answers
   one row of four columns: two arrays of texts, one of numbers, a count; answers => false for one that answers none.

   SET ROLE alone would not do: the text can undo it.  So the session becomes the role, and a function in its temporary schema that
   belongs to the role and is SECURITY DEFINER runs the text: inside of such a function Postgres refuses SET ROLE, RESET ROLE and SET SESSION
   AUTHORIZATION.  The role could change the function, so it is looked at before each use; no other session reaches it.

   Without keep everything that the text did is rolled back: settings, temporary tables, deferred triggers, writes.  With keep the writes stay,
   search_path comes back, and a write is refused that meets deferrable constraints or triggers, or leaves a holdable cursor or a temporary object:
   those would run later with the rights of the session.  Statements that the text prepared are deallocated: the session could take one for its own.

   Errors: TL403 when the session may not act as the role, or the role may not create temporary objects; those of the text as they are. */
create or replace function trunkline._run_as(
  role name, statement text, keys text[] default null, shards int[] default null, documents text[] default null, numbers bigint[] default null,
  names text[] default null, keep boolean default false, answers boolean default true,
  out texts text[], out others text[], out places int[], out n bigint)
language plpgsql as $run$
declare
  path text := current_setting('search_path');
  before text := current_setting('role');
  caller name := coalesce(nullif(before, 'none'), session_user);
  runner text := 'trunkline_run_as_' || (select r.oid from pg_catalog.pg_roles r where r.rolname = _run_as.role)::text;
  body constant text := $body$
begin
  if answers then
    execute statement into texts, others, places, n using keys, shards, documents, numbers, names;
  else
    execute statement;
  end if;
  set constraints all immediate;
end $body$;
  answered boolean := false;
  cursors text[];
  temporary text[];
  late text;
begin
  if runner is null or not trunkline._may_act(caller, role) then
    raise exception using errcode = 'TL403', message = format('%I may not act as %I.', caller, role),
      hint = format('If there is such a role, have a DBA run: grant %I to %I;', role, caller), detail = jsonb_build_object('role', caller)::text;
  end if;
  perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  begin
    perform pg_catalog.set_config('role', role, true);
    if not exists (select from pg_proc p join pg_roles r on r.oid = p.proowner
                    where p.proname = runner and p.pronamespace = pg_my_temp_schema() and r.rolname = _run_as.role
                      and p.prosecdef and p.prosrc = body and p.proconfig is null) then
      execute format('create or replace function pg_temp.%I(statement text, keys text[], shards int[], documents text[], numbers bigint[], names text[],'
        ' answers boolean, out texts text[], out others text[], out places int[], out n bigint) language plpgsql security definer as %L', runner, body);
      execute format('revoke execute on function pg_temp.%I(text, text[], int[], text[], bigint[], text[], boolean) from public', runner);
    end if;
  exception when insufficient_privilege then
    raise exception using errcode = 'TL403', message = format('the session cannot run text as %I: %s.', role, sqlerrm),
      hint = format('Have a DBA run: grant %I to %I; grant temporary on database %I to %I;', role, session_user, current_database(), role), detail = jsonb_build_object('role', caller)::text;
  end;
  perform pg_catalog.set_config('role', before, true);
  cursors := array(select c.name from pg_cursors c);
  temporary := array(select d.classid || ' ' || d.objid from pg_depend d where d.refclassid = 'pg_namespace'::regclass and d.refobjid = pg_my_temp_schema());
  begin
    perform pg_catalog.set_config('role', role, true);
    perform pg_catalog.set_config('search_path', path, true);
    execute pg_catalog.format('select * from pg_temp.%I($1, $2, $3, $4, $5, $6, $7)', runner)
       into texts, others, places, n using statement, keys, shards, documents, numbers, names, answers;
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    perform pg_catalog.set_config('role', before, true);
    answered := true;
    if not keep then
      raise exception using errcode = 'TLRUN';
    end if;
  exception when sqlstate 'TLRUN' then
    if not answered then
      raise;
    end if;
  end;
  perform pg_catalog.set_config('role', before, true);
  for late in select s.name from pg_prepared_statements s where s.from_sql and s.prepare_time >= statement_timestamp() loop
    execute format('deallocate %I', late);
  end loop;
  if keep then
    if exists (select from pg_cursors c where c.is_holdable and c.name <> all (cursors))
       or exists (select from pg_depend d where d.refclassid = 'pg_namespace'::regclass and d.refobjid = pg_my_temp_schema() and d.classid || ' ' || d.objid <> all (temporary)) then
      raise exception using errcode = 'TL403', message = 'the text left a holdable cursor or a temporary object behind: these would run with the rights of the session.',
        hint = format('Look at the triggers that run when %I writes.', role), detail = jsonb_build_object('role', role)::text;
    end if;
    select t.tgrelid::regclass::text into late from pg_locks l join pg_trigger t on t.tgrelid = l.relation
     where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.database = (select d.oid from pg_database d where d.datname = current_database())
       and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') and t.tgdeferrable limit 1;
    if found then
      raise exception using errcode = 'TL403', message = format('table %s has deferrable constraints or triggers: they would run with the rights of the session.', late),
        hint = format('Make them not deferrable, or let %I run it itself.', role), detail = jsonb_build_object('role', role)::text;
    end if;
  end if;
  perform pg_catalog.set_config('search_path', path, not keep);  -- the text may have set it for the session
end $run$;
select trunkline._access('_run_as(name, text, text[], int[], text[], bigint[], text[], boolean, boolean)', 'reader');
