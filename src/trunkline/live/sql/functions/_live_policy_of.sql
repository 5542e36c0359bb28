/* Does a policy for these roles concern a role? */
create or replace function trunkline._live_policy_of(roles oid[], role oid)
returns boolean language sql stable as $$
  select roles @> array[0::oid] or exists (select from unnest(roles) r where r <> 0 and pg_has_role(role, r, 'usage'));
$$;
