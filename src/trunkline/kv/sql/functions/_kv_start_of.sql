/* Up to where changes were numbered before the present start of the server, and a snapshot that sees what was written before it: as a life has noted them, or else now.  After a clean
   shutdown the control file names the first transaction of this start.  After a crash nothing does: what was not numbered counts as written since. */
create or replace function trunkline._kv_start_of(life trunkline.kv_life)
returns table (head bigint, snapshot pg_snapshot) language plpgsql stable as $$
declare
  last_one record;
begin
  if life.started_at = pg_postmaster_start_time() then
    return query select life.start_head, life.start_snapshot;
    return;
  end if;
  select split_part(c.next_xid, ':', 1)::bigint * 4294967296 + split_part(c.next_xid, ':', 2)::bigint as next_xid, c.checkpoint_time into last_one from pg_control_checkpoint() c;
  return query select trunkline.kv_head(),
    case when last_one.checkpoint_time < date_trunc('second', pg_postmaster_start_time()) then format('%1$s:%1$s:', last_one.next_xid)::pg_snapshot
         else coalesce((select t.snapshot from trunkline._tick_latest('kv_change') t where t.xid_space = trunkline._xid_space()), '3:3:') end;
end $$;
