/* For how long the first event has waited that is committed and not numbered yet; 0 when none does.
   Reads a few index entries per slot, however many wait. */
create or replace function trunkline.broker_unnumbered()
returns interval language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  seen trunkline.tick := trunkline._tick_latest('event');
  oldest timestamptz;
begin
  if seen.snapshot is null then
    select e.at into oldest from trunkline.event e order by e.xid, e.seq limit 1;
  else
    -- what a tick has not seen: see _sequence_beyond()
    select min(u.at) into oldest from (
      (select e.at from trunkline.event e where e.xid >= pg_snapshot_xmax(seen.snapshot) and e.xid_space = seen.xid_space order by e.xid, e.seq limit 1)
      union all
      (select e.at from trunkline.event e where e.xid = any (array(select pg_snapshot_xip(seen.snapshot))) and e.xid_space = seen.xid_space order by e.xid, e.seq limit 1)
      union all
      (select e.at from trunkline.event e where seen.xid_space <> trunkline._xid_space() and e.xid_space <> all (seen.xid_space || seen.spaces_before))) u;
  end if;
  return coalesce(greatest(clock_timestamp() - oldest, '0'), '0');
end $$;
comment on function trunkline.broker_unnumbered() is 'For how long the first event has waited that is not numbered yet.';
select trunkline._access('broker_unnumbered()', 'reader');
