/* Make the roles if this user may, then grant what the files of this schema declare.
   Returns one row per role: whether it is there.  Run it again after a DBA made the roles.  Functions
   _grant_<capability>() are called at the end, for what is granted otherwise. */
create or replace function trunkline.roles_grant()
returns table (role_name text, there boolean) language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  kind text;
  declared record;
begin
  perform trunkline._routines_lock();
  foreach kind in array array['reader', 'writer', 'admin'] loop
    role_name := 'trunkline_' || kind;
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

  revoke all on all routines in schema trunkline from public;
  -- triggers on user tables run as whoever writes: they must find the one function that takes what they saw
  grant usage on schema trunkline to public;
  delete from trunkline.access a where to_regprocedure('trunkline.' || a.signature) is null;
  for declared in select a.signature from trunkline.access a where a.role = 'public' loop
    execute format('grant execute on routine trunkline.%s to public', declared.signature);
  end loop;
  for kind in select r.rolname from pg_roles r
               where r.rolname in ('trunkline_reader', 'trunkline_writer', 'trunkline_admin') loop
    execute format('grant usage on schema trunkline to %I', kind);
    execute format('revoke all on all routines in schema trunkline from %I', kind);
    for declared in
      select a.signature from trunkline.access a
       where a.role <> 'public' and array_position(array['reader', 'writer', 'admin'], a.role)
          <= array_position(array['trunkline_reader', 'trunkline_writer', 'trunkline_admin'], kind)
    loop
      execute format('grant execute on routine trunkline.%s to %I', declared.signature, kind);
    end loop;
    for declared in
      select a.*, array_position(array['reader', 'writer', 'admin'], a.role)
          <= array_position(array['trunkline_reader', 'trunkline_writer', 'trunkline_admin'], kind) as allowed
        from trunkline.access_insert a
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
