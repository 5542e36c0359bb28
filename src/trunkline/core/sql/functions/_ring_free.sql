/* Empty one slot if its rule allows it, waiting for nobody longer than maintain.lock_timeout.
   The rule is asked again under the lock: a writer may have been late.  Says in `ring` who holds it back. */
create or replace function trunkline._ring_free(ring text, slot int)
returns boolean language plpgsql as $$
declare
  child text := format('trunkline.%I', ring || '_' || slot);
  rule text;
  allowed boolean;
  empty boolean;
begin
  execute format('select not exists (select from %s)', child) into empty;
  if empty then
    return true;
  end if;
  select r.may_leave into strict rule from trunkline.ring r where r.ring = _ring_free.ring;
  execute format('select trunkline.%I($1, $2)', rule) into allowed using ring, slot;
  if not allowed then
    return false;
  end if;
  perform set_config('lock_timeout',
    (1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
  begin
    execute format('lock table %s in access exclusive mode', child);
    execute format('select trunkline.%I($1, $2)', rule) into allowed using ring, slot;
    if allowed then
      execute format('truncate %s', child);
      update trunkline.ring_slot s set left_at = null, snapshot = null, xid_space = null, up_to = null
       where s.ring = _ring_free.ring and s.slot = _ring_free.slot;
      update trunkline.ring r set held_since = null, held_by = null
       where r.ring = _ring_free.ring and r.held_since is not null;
    end if;
  exception when lock_not_available then
    allowed := false;
    update trunkline.ring r
       set held_since = coalesce(r.held_since, clock_timestamp()), held_by = trunkline._lock_holders(child::regclass)
     where r.ring = _ring_free.ring and (r.held_since is null or r.held_by is distinct from trunkline._lock_holders(child::regclass));
  end;
  perform set_config('lock_timeout', '0', true);
  return allowed;
end $$;
