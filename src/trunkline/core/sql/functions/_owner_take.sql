/* owner_take with the clock given, for tests.  Waits for no lock: NULL while the resource is acknowledged, given back or
   taken in another transaction. */
create or replace function trunkline._owner_take(resource text, process uuid, member text, now_ timestamptz)
returns bigint language plpgsql as $$
declare
  before bigint := trunkline._epoch_floor((trunkline._incarnation_row()).incarnation);
  held trunkline.owner;
  taken bigint;
begin
  if not trunkline._lease_living(process, now_) then
    raise exception using errcode = 'TL423', message = format('process %s has no living lease.', coalesce(process::text, 'NULL')),
      hint = 'Call lease_renew() first, and every third of lease.ttl.', detail = jsonb_build_object('process', process)::text;
  end if;
  select o.* into held from trunkline.owner o where o.resource = _owner_take.resource;
  if not found then
    perform trunkline._lock_briefly();
    insert into trunkline.owner as o (resource, epoch, process, member, since)
    values (_owner_take.resource, before + 1, _owner_take.process, _owner_take.member, now_)
    on conflict on constraint owner_pkey do nothing returning o.epoch into taken;
    if taken is not null then
      return taken;
    end if;
    select o.* into held from trunkline.owner o where o.resource = _owner_take.resource;
  end if;
  if held.epoch > before and held.process = _owner_take.process and held.member = _owner_take.member then
    return held.epoch;
  elsif held.epoch > before and held.process is not null and trunkline._lease_living(held.process, now_) then
    return null;
  end if;
  -- an acknowledgement under way holds the row FOR SHARE: the resource can be had after it, and is not waited for, since
  -- its transaction may be that of a process that is cut off.  If another process was quicker the epoch has moved
  perform 1 from trunkline.owner o
    where o.resource = _owner_take.resource and o.epoch = held.epoch and o.process is not distinct from held.process
    for no key update skip locked;
  if found then
    perform trunkline._lock_briefly();
    update trunkline.owner o set epoch = greatest(o.epoch, before) + 1, process = _owner_take.process, member = _owner_take.member, since = now_
     where o.resource = _owner_take.resource returning o.epoch into taken;
  end if;
  return taken;
end $$;
