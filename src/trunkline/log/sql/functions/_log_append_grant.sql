/* Let those call the function of a partition's own who have "append" on its topic, and no other role. */
create or replace function trunkline._log_append_grant(name text, topic text)
returns void language plpgsql as $$
declare
  change record;
begin
  for change in
    with present as (
      select a.grantee as role from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
       where p.oid = to_regproc(format('trunkline.%I', name)) and a.grantee <> p.proowner
    ), wanted as (
      select r.oid as role from pg_roles r
       where r.rolname = 'trunkline_admin' or r.rolname in (select o.owner from trunkline.object o where o.object = 'topic:' || topic)
          or r.rolname in (select g.role from trunkline.object_grant g where g.object = 'topic:' || topic and g.privilege in ('append', 'manage'))
    ), differing as (
      select true as may, d.role from (select role from wanted except select role from present) d
      union all
      select false, d.role from (select role from present except select role from wanted) d
    )
    select d.may, string_agg(case d.role when 0 then 'public' else quote_ident(pg_get_userbyid(d.role)) end, ', ') as roles from differing d group by d.may
  loop
    execute format(case when change.may then 'grant execute on function trunkline.%I to %s' else 'revoke all on function trunkline.%I from %s' end,
                   name, change.roles);
  end loop;
end $$;
