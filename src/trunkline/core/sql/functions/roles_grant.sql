/* Make the roles if this user may, then grant what the files of this schema declare.
   Returns one row per role: whether it is there.  Run it again after a DBA made the roles.  Functions
   _grant_<capability>() are called at the end, for what is granted otherwise. */
create or replace function trunkline.roles_grant()
returns table (role_name text, there boolean) language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  kinds constant text[] := array['trunkline_reader', 'trunkline_writer', 'trunkline_admin'];
  kind text;
  declared record;
begin
  perform trunkline._routines_lock();
  foreach role_name in array kinds loop
    begin
      if not exists (select from pg_roles r where r.rolname = role_name) then
        execute format('create role %I nologin', role_name);
      end if;
    exception
      when duplicate_object or unique_violation then null;  -- another database's install was quicker
      when insufficient_privilege then
        raise notice 'role % is missing and % may not create roles: have a DBA run "create role % nologin", then select trunkline.roles_grant()',
          role_name, current_user, role_name;
    end;
    there := exists (select from pg_roles r where r.rolname = role_name);
    return next;
  end loop;

  begin
    if not pg_has_role('trunkline_writer', 'trunkline_reader', 'member') then
      grant trunkline_reader to trunkline_writer;
    end if;
    if not pg_has_role('trunkline_admin', 'trunkline_writer', 'member') then
      grant trunkline_writer to trunkline_admin;
    end if;
  exception when insufficient_privilege or undefined_object then
    null;  -- not our roles: whoever made them says who inherits; each gets its own grants below
  end;

  -- triggers on user tables run as whoever writes: they must find the one function that takes what they saw
  grant usage on schema trunkline to public;
  delete from trunkline.access a where to_regprocedure('trunkline.' || a.signature) is null;
  -- each routine is changed once at most, and not at all where its rights are what they should be
  for declared in
    with grantee (name, id, level) as (
      select 'public', 0::oid, 0
      union all
      select r.rolname::text, r.oid, array_position(kinds, r.rolname::text) from pg_roles r where r.rolname = any (kinds)
    ), given (routine, name) as (
      select p.oid, g.name
        from pg_proc p cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x join grantee g on g.id = x.grantee
       where p.pronamespace = 'trunkline'::regnamespace and g.id <> p.proowner
    ), wanted (routine, name) as (
      select to_regprocedure('trunkline.' || a.signature)::oid, g.name
        from trunkline.access a
        join grantee g on case when a.role = 'public' then g.level = 0 else g.level >= array_position(kinds, 'trunkline_' || a.role) end
    ), change (verb, routine, names) as (
      select 'revoke all on routine %s from %s', d.routine, array_agg(d.name order by d.name)
        from (select * from given except select * from wanted) d group by d.routine
      union all
      select 'grant execute on routine %s to %s', d.routine, array_agg(d.name order by d.name)
        from (select * from wanted except select * from given) d group by d.routine
    )
    select c.verb, string_agg(c.routine::regprocedure::text, ', ' order by c.routine) as routines, array_to_string(c.names, ', ') as names
      from change c group by c.verb, c.names order by c.verb desc
  loop
    execute format(declared.verb, declared.routines, declared.names);
  end loop;
  foreach kind in array kinds loop
    continue when not exists (select from pg_roles r where r.rolname = kind);
    execute format('grant usage on schema trunkline to %I', kind);
    for declared in
      select a.*, array_position(kinds, 'trunkline_' || a.role) <= array_position(kinds, kind) as allowed from trunkline.access_insert a
    loop
      execute format('revoke all on trunkline.%I, trunkline.%I from %I', declared.relation, declared.numbers, kind);
      if declared.allowed then
        execute format('grant insert (%s) on trunkline.%I to %I',
          (select string_agg(quote_ident(c.name), ', ') from unnest(declared.columns) c (name)), declared.relation, kind);
        execute format('grant usage on sequence trunkline.%I to %I', declared.numbers, kind);
      end if;
    end loop;
  end loop;
  for declared in select p.proname from pg_proc p where p.pronamespace = 'trunkline'::regnamespace and p.proname ~ '^_grant_' loop
    execute format('select trunkline.%I()', declared.proname);
  end loop;
end $$;
comment on function trunkline.roles_grant() is
  'Make trunkline_reader, trunkline_writer and trunkline_admin if allowed, and grant them what they may call.';
