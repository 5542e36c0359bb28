/* Those of some groups that the role that the session acts as may consume. */
create or replace function trunkline._broker_groups_for(group_names text[])
returns text[] language sql stable as $$
  select array(select g.name from (select distinct n as name from unnest(group_names) n) g where trunkline._may('group:' || g.name, '{consume}', trunkline._caller()));
$$;
