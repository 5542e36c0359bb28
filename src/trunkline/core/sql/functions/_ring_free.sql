/* Empty one slot, waiting for nobody longer than maintain.lock_timeout.  The rule is asked again under the lock:
   a writer may have been late.  Says in `ring` who holds it back.  While one who did so goes on doing so, it is
   not tried at all: whoever waits for this lock makes others wait behind it. */
create or replace function trunkline._ring_free(ring text, slot int)
returns boolean language plpgsql as $$
declare
  child text := format('trunkline.%I', ring || '_' || slot);
  before text := current_setting('lock_timeout');
  state trunkline.ring;
  allowed boolean := false;
begin
  perform trunkline._isolation_check('Emptying a slot');
  select r.* into strict state from trunkline.ring r where r.ring = _ring_free.ring;
  if exists (select from pg_locks l where l.locktype = 'relation' and l.relation = child::regclass and l.granted
                and strpos(state.held_by, format('transaction %s)', l.virtualtransaction)) > 0) then
    return false;
  end if;
  perform set_config('lock_timeout',
    ceil(1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
  begin
    execute format('lock table %s in access exclusive mode', child);
    execute format('select trunkline.%I($1, $2)', state.may_leave) into allowed using ring, slot;
    if allowed then
      execute format('truncate %s', child);
      update trunkline.ring_slot s set left_at = null, free_since = null, snapshot = null, xid_space = null, up_to = null
       where s.ring = _ring_free.ring and s.slot = _ring_free.slot;
      -- always: a REPEATABLE READ transaction from before this must see that the ring has changed
      update trunkline.ring r set held_since = null, held_by = null where r.ring = _ring_free.ring;
    end if;
  exception when lock_not_available then
    allowed := false;
    update trunkline.ring r
       set held_since = coalesce(r.held_since, clock_timestamp()), held_by = trunkline._lock_holders(child::regclass)
     where r.ring = _ring_free.ring;
  end;
  perform set_config('lock_timeout', before, true);
  return allowed;
end $$;
