/* Make the role that conditions in SQL run as, and give it the functions that run them, if this user may; otherwise say
   what is missing: until then only the JSON form of conditions is accepted. */
create or replace function trunkline._grant_conditions()
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  maker name := (select pg_get_userbyid(p.proowner) from pg_proc p where p.oid = 'trunkline.roles_grant()'::regprocedure);
  signature text;
begin
  if not exists (select from pg_roles r where r.rolname = 'trunkline_matcher') then
    create role trunkline_matcher nologin;
  end if;
  if not pg_has_role(maker, 'trunkline_matcher', 'usage') then
    execute format('grant trunkline_matcher to %I', maker);
  end if;
  grant usage on schema trunkline to trunkline_matcher;
  grant select on trunkline.broker_match_event, trunkline.broker_match_subscription, trunkline.broker_subscription_live to trunkline_matcher;
  if not has_database_privilege('trunkline_matcher', current_database(), 'temp') then
    execute format('grant temporary on database %I to trunkline_matcher', current_database());
  end if;
  if not trunkline._condition_sandboxed() then
    grant create on schema trunkline to trunkline_matcher;
    foreach signature in array array['_condition_run(text, trunkline.broker_match_event[])', '_condition_parse(text)'] loop
      execute format('alter function trunkline.%s owner to trunkline_matcher', signature);
      execute format('grant execute on function trunkline.%s to %I', signature, maker);
    end loop;
    revoke create on schema trunkline from trunkline_matcher;
  end if;
exception
  when duplicate_object or unique_violation then  -- another database's install was quicker
    perform trunkline._grant_conditions();
  when insufficient_privilege then
    raise notice 'conditions in SQL are refused until a DBA runs "create role trunkline_matcher nologin; grant trunkline_matcher to %", then select trunkline.roles_grant() (%)',
      maker, sqlerrm;
end $$;
