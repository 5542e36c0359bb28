/* What _tick_new() answers for entries of tubes within one xid space, as statements that are planned once per session: see _event_new().  The tag is that of
   the sequence. */
create or replace function trunkline._tube_entry_new(
  last trunkline.tick, space int,
  out snapshot pg_snapshot, out xids xid8[], out seqs bigint[], out tags bigint[], out spaces int[])
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  own xid8 := pg_current_xact_id_if_assigned();
begin
  if own is null and pg_snapshot_xmin(last.snapshot) = pg_snapshot_xmax(last.snapshot) then
    with now_ as materialized (select pg_current_snapshot() s)
    select n.s, f.xids, f.seqs, f.tags into snapshot, xids, seqs, tags
      from now_ n cross join lateral (
        select array_agg(r.xid order by r.seq) as xids, array_agg(r.seq order by r.seq) as seqs,
               array_agg((r.tube_id::bigint << 32) | (r.priority::bigint << 31) | r.shard order by r.seq) as tags
          from trunkline.tube_entry r
         where r.xid >= pg_snapshot_xmax(last.snapshot) and r.xid < pg_snapshot_xmax(n.s)
           and pg_visible_in_snapshot(r.xid, n.s) and r.xid_space = space) f;
  else
    with taken as materialized (select pg_current_snapshot() s),
    now_ as materialized (
      select case when own < pg_snapshot_xmax(s)
        then format('%s:%s:%s', pg_snapshot_xmin(s), pg_snapshot_xmax(s),
               (select string_agg(x::text, ',' order by x) from (select pg_snapshot_xip(s) union select own) open (x)))::pg_snapshot
        else s end s from taken),
    fresh as (
      select r.xid, r.seq, (r.tube_id::bigint << 32) | (r.priority::bigint << 31) | r.shard as tag from trunkline.tube_entry r
       where r.xid >= pg_snapshot_xmax(last.snapshot) and r.xid < (select pg_snapshot_xmax(s) from now_)
         and pg_visible_in_snapshot(r.xid, (select s from now_)) and r.xid_space = space
      union all
      select r.xid, r.seq, (r.tube_id::bigint << 32) | (r.priority::bigint << 31) | r.shard from trunkline.tube_entry r
       where r.xid = any (array(select x from pg_snapshot_xip(last.snapshot) x where pg_visible_in_snapshot(x, (select s from now_))))
         and r.xid_space = space)
    select (select s from now_), array_agg(f.xid order by f.seq), array_agg(f.seq order by f.seq), array_agg(f.tag order by f.seq)
      into snapshot, xids, seqs, tags from fresh f;
  end if;
end $$;
