/* Make the function of a sequence's own that finds what is new within one xid space, _<source>_new(last, space): its statements
   are planned once per session.  Planning them anew over all slots takes longer than the look itself, and every poll asks.
   The rows, the rules and the answer are those of _tick_new(), which calls it.  When nothing was in progress at the last tick there
   is only one place to look at.  By index, whatever the statistics say: after a few large transactions they promise that every
   row is new.  The functions of all sequences are made anew when this file changes. */
create or replace function trunkline._sequence_prepare(sequence text)
returns void language plpgsql as $make$
declare
  made text;
  numbered record;
  tagged boolean;
begin
  select s.source, s.tag into strict numbered from trunkline.sequence s where s.sequence = _sequence_prepare.sequence;
  tagged := numbered.tag <> 'null';
  made := format('trunkline.%I', '_' || numbered.source || '_new');
  execute format($sql$
create or replace function %1$s(
  last trunkline.tick, space int,
  out snapshot pg_snapshot, out xids xid8[], out seqs bigint[], out tags bigint[], out spaces int[])
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $new$
declare
  own xid8 := pg_current_xact_id_if_assigned();
begin
  if own is null and pg_snapshot_xmin(last.snapshot) = pg_snapshot_xmax(last.snapshot) then
    with now_ as materialized (select pg_current_snapshot() s)
    select n.s, f.xids, f.seqs, f.tags into snapshot, xids, seqs, tags
      from now_ n cross join lateral (
        select array_agg(r.xid order by r.seq) as xids, array_agg(r.seq order by r.seq) as seqs, %4$s as tags
          from trunkline.%2$I r
         where r.xid >= pg_snapshot_xmax(last.snapshot) and r.xid < pg_snapshot_xmax(n.s)
           and pg_visible_in_snapshot(r.xid, n.s) and r.xid_space = space) f;
  else
    with taken as materialized (select pg_current_snapshot() s),
    now_ as materialized (
      select case when own < pg_snapshot_xmax(s)
        then format('%%s:%%s:%%s', pg_snapshot_xmin(s), pg_snapshot_xmax(s),
               (select string_agg(x::text, ',' order by x) from (select pg_snapshot_xip(s) union select own) open (x)))::pg_snapshot
        else s end s from taken),
    fresh as (
      select r.xid, r.seq, %3$s as tag from trunkline.%2$I r
       where r.xid >= pg_snapshot_xmax(last.snapshot) and r.xid < (select pg_snapshot_xmax(s) from now_)
         and pg_visible_in_snapshot(r.xid, (select s from now_)) and r.xid_space = space
      union all
      select r.xid, r.seq, %3$s from trunkline.%2$I r
       where r.xid = any (array(select x from pg_snapshot_xip(last.snapshot) x where pg_visible_in_snapshot(x, (select s from now_))))
         and r.xid_space = space)
    select (select s from now_), array_agg(r.xid order by r.seq), array_agg(r.seq order by r.seq), %5$s
      into snapshot, xids, seqs, tags from fresh r;
  end if;
end $new$
$sql$, made, numbered.source, format('(%s)::bigint', numbered.tag),
    case when tagged then format('array_agg((%s)::bigint order by r.seq)', numbered.tag) else 'null::bigint[]' end,
    case when tagged then 'array_agg(r.tag order by r.seq)' else 'null::bigint[]' end);
  execute format('revoke all on function %s(trunkline.tick, int) from public', made);
end $make$;
select trunkline._sequence_prepare(s.sequence) from trunkline.sequence s;
