/* Does a slot hold a row that a tick has not seen?  Answered by the index on (xid, seq). */
create or replace function trunkline._sequence_beyond(ring text, slot int, seen trunkline.tick)
returns boolean language plpgsql stable set enable_seqscan = off set jit = off as $$
declare
  beyond boolean;
begin
  execute format($sql$
    select exists (select from %1$s r where r.xid >= pg_snapshot_xmax($1) and r.xid_space = $2)
        or exists (select from %1$s r where r.xid = any (array(select pg_snapshot_xip($1))) and r.xid_space = $2)
        or $2 <> trunkline._xid_space() and exists (select from %1$s r where r.xid_space <> all ($3)) $sql$,
    format('trunkline.%I', ring || '_' || slot))
    into beyond using seen.snapshot, seen.xid_space, seen.xid_space || seen.spaces_before;
  return beyond;
end $$;
