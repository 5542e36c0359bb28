/* Refuse to act on the lease of another: TL403 unless the one who is logged in took it, may act for who did, or is an admin. */
create or replace function trunkline._lease_check_holder(process uuid)
returns void language plpgsql as $$
declare
  holder name := (select l.role from trunkline.lease l where l.process = _lease_check_holder.process);
begin
  if holder <> session_user and not trunkline._administers()
     and not exists (select from pg_roles r where r.rolname = holder and pg_has_role(session_user, r.oid, 'member')) then
    perform trunkline._raise('TL403', format('process %s belongs to %s.', process, quote_ident(holder)), 'An admin may end it, too.');
  end if;
end $$;
