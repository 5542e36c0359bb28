/* Who may call log_append_batch() may call the function of a partition's own, and nobody else. */
create or replace function trunkline._log_append_grant(name text)
returns void language plpgsql as $$
declare
  change record;
begin
  for change in
    select case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end as role, bool_or(a.model) as may
      from (select a.grantee, p.proname = 'log_append_batch' as model
              from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
             where p.oid in ('trunkline.log_append_batch'::regproc, to_regproc(format('trunkline.%I', name))) and a.grantee <> p.proowner) a
     group by grantee having count(distinct a.model) = 1
  loop
    execute format(case when change.may then 'grant execute on function trunkline.%I to %s' else 'revoke all on function trunkline.%I from %s' end,
                   name, change.role);
  end loop;
end $$;
