/* Give resources back, and leave the party if that was the whole of it. */
create or replace function trunkline._party_leave(party text, resources text[], process uuid, member text, whole boolean)
returns void language plpgsql as $$
begin
  perform trunkline._lease_check_holder(process);
  perform trunkline._lock_briefly();
  update trunkline.owner o set process = null, since = clock_timestamp()
   where o.resource = any (resources) and o.process = _party_leave.process and o.member = _party_leave.member;
  if whole then
    delete from trunkline.party p where p.party = _party_leave.party
       and p.process = _party_leave.process and p.member = _party_leave.member;
  end if;
end $$;
