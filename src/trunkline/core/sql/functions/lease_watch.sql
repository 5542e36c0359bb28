/* Look whether the next process, in a ring of those whose lease is tied to a session, is still there.  If its session
   has ended and no other has taken its place, its lease ends, and a notification "lease:<process>" says so; then the
   one after it is looked at.  Every process calls this once a second for itself; it writes nothing while all are there.
   Returns "missing" if the session of another has ended just now: call again in 0.8 seconds; "gone" if a lease was
   ended; else "there".
   A session that ended gets 0.8 seconds to be replaced, for its process may have lost only the connection; 5 seconds
   after the server was restarted, or recovered from a crash, which ended all sessions.
   Locks: rows of leases that end, none that another transaction has locked. */
create or replace function trunkline.lease_watch(process uuid)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  answer text := 'there';
  before uuid := process;
  around boolean := false;
  other trunkline.lease;
  patience interval;
begin
  loop
    -- the next row by the primary key: the same work however many processes there are
    select l.* into other from trunkline.lease l
     where l.process > before and l.session_since is not null and l.expires > clock_timestamp() order by l.process limit 1;
    exit when around and (not found or other.process >= lease_watch.process);
    if not found then
      around := true;
      before := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    before := other.process;
    exit when not trunkline._lease_missing(other.process);
    select l.* into other from trunkline.lease l
     where l.process = other.process and l.session_since = other.session_since for no key update skip locked;
    continue when not found;
    perform trunkline._lock_briefly();
    patience := case when other.session_since > trunkline._sessions_since() then interval '0.8 seconds' else interval '5 seconds' end;
    if other.missing_since is null then
      update trunkline.lease l set missing_since = clock_timestamp() where l.process = other.process;
      answer := 'missing';
    elsif other.missing_since > clock_timestamp() - patience then
      answer := 'missing';
    else
      update trunkline.lease l set expires = clock_timestamp(), session_since = null, missing_since = null where l.process = other.process;
      perform pg_notify('trunkline', 'lease:' || other.process);
      return 'gone';
    end if;
  end loop;
  return answer;
end $$;
comment on function trunkline.lease_watch(uuid) is 'End the leases of processes whose session has ended; every process calls it once a second.';
select trunkline._access('lease_watch(uuid)', 'reader');
