/* A process leaves in good order: what it owned is free at once.  Returns how many things it owned.
   TL403 unless the one who is logged in took the lease, may act for who did, or is an admin. */
create or replace function trunkline.lease_end(process uuid)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  holder name := (select l.role from trunkline.lease l where l.process = lease_end.process);
  freed int;
begin
  if holder <> session_user and not trunkline._administers()
     and not exists (select from pg_roles r where r.rolname = holder and pg_has_role(session_user, r.oid, 'member')) then
    perform trunkline._raise('TL403', format('process %s belongs to %s.', process, quote_ident(holder)), 'An admin may end it, too.');
  end if;
  update trunkline.owner o set process = null, since = clock_timestamp() where o.process = lease_end.process;
  get diagnostics freed = row_count;
  delete from trunkline.party p where p.process = lease_end.process;
  delete from trunkline.lease l where l.process = lease_end.process;
  return freed;
end $$;
comment on function trunkline.lease_end(uuid) is 'A process leaves in good order: what it owned is free at once.';
select trunkline._access('lease_end(uuid)', 'reader');
