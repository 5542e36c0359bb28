/* Empty the slot that was left longest ago, if nobody has needed its rows for maintain.settle.  Returns whether
   it did: then commit before anything else is locked, because readers of the whole ring wait for that.
   Older slots go first; one that must stay holds back the younger ones. */
create or replace function trunkline._ring_clear(ring text, now_ timestamptz)
returns boolean language plpgsql as $$
declare
  rule text;
  oldest trunkline.ring_slot;
  allowed boolean;
begin
  select r.may_leave into rule from trunkline.ring r where r.ring = _ring_clear.ring for no key update skip locked;
  if not found then
    return false;
  end if;
  select s.* into oldest from trunkline.ring_slot s
   where s.ring = _ring_clear.ring and s.left_at is not null order by s.left_at, s.slot limit 1;
  if not found then
    return false;
  end if;
  execute format('select trunkline.%I($1, $2)', rule) into allowed using ring, oldest.slot;
  if allowed is distinct from (oldest.free_since is not null) then
    oldest.free_since := case when allowed then now_ end;
    update trunkline.ring_slot s set free_since = oldest.free_since
     where s.ring = _ring_clear.ring and s.slot = oldest.slot;
  end if;
  if oldest.free_since is null or now_ < oldest.free_since + trunkline._setting('maintain.settle')::interval then
    return false;
  end if;
  return trunkline._ring_free(ring, oldest.slot);
end $$;
