/* Make the roles of the parade if this user may, and give them what they need: trunkline_kv_client reads and writes keys, trunkline_kv_replicator is what other instances log in as. */
create or replace function trunkline._grant_kv()
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  kind text;
  signature text;
begin
  foreach kind in array array['trunkline_kv_client', 'trunkline_kv_replicator'] loop
    begin
      if not exists (select from pg_roles r where r.rolname = kind) then
        execute format('create role %I nologin', kind);
      end if;
    exception
      when duplicate_object or unique_violation then null;  -- another database's install was quicker
      when insufficient_privilege then
        raise notice 'role % is missing: have a DBA run "create role % nologin", then select trunkline.roles_grant()', kind, kind;
        continue;
    end;
    execute format('grant usage on schema trunkline to %I', kind);
    execute format('revoke all on all routines in schema trunkline from %I', kind);
    for signature in
      select a.signature from trunkline.access a
       where case kind when 'trunkline_kv_client' then a.signature ~ '^kv_(get|get_many|scan|cuts|put|put_many|delete|patch_numeric|changes|head|ends|policies|topology)[(]'
                       else a.signature ~ '^kv_(hello|copy_begin|copy|export|confirm|digest|bucket|head|topology)[(]' end
    loop
      execute format('grant execute on function trunkline.%s to %I', signature, kind);
    end loop;
  end loop;
end $$;
