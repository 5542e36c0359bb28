/* Refuse to act on the lease of another: TL403 unless the role that the session acts as took it, inherits from the role that did, or is an admin. */
create or replace function trunkline._lease_check_holder(process uuid)
returns void language plpgsql as $$
declare
  holder name := (select l.role from trunkline.lease l where l.process = _lease_check_holder.process);
  caller name := trunkline._caller();
begin
  if holder <> caller and not trunkline._administers()
     and not exists (select from pg_roles r where r.rolname = holder and pg_has_role(caller, r.oid, 'member')) then
    raise exception using errcode = 'TL403', message = format('process %s belongs to %s.', process, quote_ident(holder)), hint = 'An admin may end it, too.';
  end if;
end $$;
