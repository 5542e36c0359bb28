/* TL404 unless there is a role of this name. */
create or replace function trunkline._role_check(role name)
returns void language plpgsql stable as $$
begin
  if role is null or not exists (select from pg_roles r where r.rolname = _role_check.role) then
    raise exception using errcode = 'TL404', message = format('there is no role %s.', coalesce(quote_literal(role), 'NULL')),
      hint = 'Create it with CREATE ROLE.', detail = jsonb_build_object('role', role)::text;
  end if;
end $$;
