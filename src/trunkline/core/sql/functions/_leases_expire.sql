/* leases_expire with the clock given, for tests.  A renewal cannot be later than now: the clock was ahead when it was made.  Its lease
   lasts from now on as long as it was given, which is enough for a process that lives to renew it.
   A renewal of this very moment may seem to be later by the time that its row was waited for. */
create or replace function trunkline._leases_expire(now_ timestamptz)
returns void language plpgsql as $$
begin
  update trunkline.lease l set expires = now_ + (l.expires - l.renewed_at), renewed_at = now_
   where l.renewed_at > now_ + interval '1 second';
  delete from trunkline.lease l where l.expires < now_ - interval '10 minutes';
  delete from trunkline.party p where not exists (select from trunkline.lease l where l.process = p.process);
end $$;
