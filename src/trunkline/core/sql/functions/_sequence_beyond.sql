/* Does a slot hold a row that a snapshot of an xid space did not see?  Answered by the index on (xid, seq). */
create or replace function trunkline._sequence_beyond(ring text, slot int, snapshot pg_snapshot, space int)
returns boolean language plpgsql stable as $$
declare
  beyond boolean;
begin
  execute format($sql$
    select exists (select from %1$s r where r.xid >= pg_snapshot_xmax($1) and r.xid_space >= $2)
        or exists (select from %1$s r where r.xid = any (array(select pg_snapshot_xip($1))) and r.xid_space >= $2)
        or $2 < trunkline._xid_space() and exists (select from %1$s r where r.xid_space > $2) $sql$,
    format('trunkline.%I', ring || '_' || slot))
    into beyond using snapshot, space;
  return beyond;
end $$;
