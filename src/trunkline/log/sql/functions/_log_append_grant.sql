/* Who may call log_append_batch() may call the function of a partition's own. */
create or replace function trunkline._log_append_grant(name text)
returns void language plpgsql as $$
declare
  grantee text;
begin
  execute format('revoke all on function trunkline.%I from public', name);
  for grantee in
    select distinct case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
      from pg_proc p cross join lateral aclexplode(p.proacl) a where p.oid = 'trunkline.log_append_batch'::regproc and a.grantee <> p.proowner
  loop
    execute format('grant execute on function trunkline.%I to %s', name, grantee);
  end loop;
end $$;
