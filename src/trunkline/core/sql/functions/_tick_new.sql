/* What this statement's snapshot sees of a source and the last tick's did not, in the order of seq.
   READ COMMITTED: one statement, one snapshot.  Never on a standby: its snapshots omit open transactions.
   A snapshot omits the transaction that takes it: its own xid is put back among those in progress, for what
   it writes after the tick would otherwise pass for seen.
   In a new xid space (after a restore) the rows of other spaces that the last tick did not see are taken once;
   then the new space starts fresh.  Within one space the sequence's own function looks, see _sequence_prepare(). */
create or replace function trunkline._tick_new(
  source text, tag text, last trunkline.tick, space int,
  out snapshot pg_snapshot, out xids xid8[], out seqs bigint[], out tags bigint[], out spaces int[])
language plpgsql set enable_seqscan = off set jit = off as $$
begin
  if last.xid_space = space then
    execute format('select f.* from trunkline.%I($1, $2) f', '_' || source || '_new') into snapshot, xids, seqs, tags, spaces using last, space;
    return;
  end if;
  execute format($sql$
    with taken as materialized (select pg_current_snapshot() s),
    now_ as materialized (
      select case when $4 < pg_snapshot_xmax(s)
        then format('%%s:%%s:%%s', pg_snapshot_xmin(s), pg_snapshot_xmax(s),
               (select string_agg(x::text, ',' order by x) from (select pg_snapshot_xip(s) union select $4) open (x)))::pg_snapshot
        else s end s from taken),
    fresh as (
      select r.xid, r.seq, (%2$s)::bigint as tag, null::int as space from trunkline.%1$I r
       where r.xid_space = $2 and pg_visible_in_snapshot(r.xid, (select s from now_))
      union all
      select r.xid, r.seq, (%2$s)::bigint, r.xid_space from trunkline.%1$I r
       where r.xid_space <> $2 and ($3 is null or r.xid_space <> all ($5)
             and (r.xid_space <> $3 or not pg_visible_in_snapshot(r.xid, $1))))
    select (select s from now_), array_agg(f.xid order by f.seq), array_agg(f.seq order by f.seq),
           case when %2$L <> 'null' then array_agg(f.tag order by f.seq) end,
           array_agg(distinct f.space) filter (where f.space is not null) from fresh f $sql$, source, tag)
    into snapshot, xids, seqs, tags, spaces
    using last.snapshot, space, last.xid_space, pg_current_xact_id_if_assigned(), last.spaces_before;
end $$;
