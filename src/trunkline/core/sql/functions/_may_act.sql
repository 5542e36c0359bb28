/* Whether a role may act as another one: it has its rights, or may take them with SET ROLE. */
create or replace function trunkline._may_act(role name, other name)
returns boolean language sql stable as $$
  select pg_has_role(role, other, 'usage')
      or pg_has_role(role, other, case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end);
$$;
select trunkline._access('_may_act(name, name)', 'reader');
