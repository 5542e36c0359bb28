/* leases_expire with the clock given, for tests.  A renewal cannot be later than now: the clock was ahead when it was made.  Its lease
   lasts from now on as long as it was given, which is enough for a process that lives to renew it.
   A renewal of this very moment may seem to be later by a little.  Waits for no lock: the next round finds what is left. */
create or replace function trunkline._leases_expire(now_ timestamptz)
returns void language plpgsql as $$
begin
  with ahead as (select l.process from trunkline.lease l where l.renewed_at > now_ + interval '1 second' for no key update skip locked)
  update trunkline.lease l set expires = now_ + (l.expires - l.renewed_at), renewed_at = now_ from ahead a where l.process = a.process;
  with over as (select l.process from trunkline.lease l where l.expires < now_ - interval '10 minutes' for update skip locked)
  delete from trunkline.lease l using over o where l.process = o.process;
  with over as (select p.party, p.process, p.member from trunkline.party p
                 where not exists (select from trunkline.lease l where l.process = p.process) for update skip locked)
  delete from trunkline.party p using over o where (p.party, p.process, p.member) = (o.party, o.process, o.member);
end $$;
