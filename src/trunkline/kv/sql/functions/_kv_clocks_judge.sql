/* Judge the clocks of the parade by a majority.  A clock is outvoted when it is ahead by more than kv.max_skew (most) of more than half of those that were heard within five minutes, this one
   included.  If this clock is outvoted, nothing is stamped here.  The hybrid clock is the highest one that is not outvoted, but at most half of kv.dead_keep (or kv.max_skew, if that is more) ahead
   of this one, so that nothing dead is forgotten too early.  A peer that is away has no vote, but counts for the hybrid clock.
   A lead below half a second counts as none: measuring it over a busy network errs by as much, and of two writes the later one is to win. */
create or replace function trunkline._kv_clocks_judge(most interval)
returns void language plpgsql as $$
declare
  bound interval := greatest(most, trunkline._setting('kv.dead_keep')::interval / 2);
  best bigint;
  too_far interval;
begin
  with clocks as materialized (
    select interval '0' as lead, true as votes, true as here
    union all
    select -p.skew, p.heard_at > clock_timestamp() - interval '5 minutes', false
      from trunkline.kv_peer p join trunkline.kv_local_replication_topology() t on t.instance = p.instance where p.skew is not null),
  judged as (
    select c.lead, c.here, v.outvoted, v.by_least
      from clocks c cross join lateral (
        select count(*) filter (where c.lead - v.lead > most) * 2 > count(*) as outvoted, min(c.lead - v.lead) filter (where c.lead - v.lead > most) as by_least
          from clocks v where v.votes) v)
  select extract(epoch from least(max(j.lead) filter (where not j.outvoted), bound)) * 1000000, max(j.by_least) filter (where j.here and j.outvoted)
    into best, too_far from judged j;
  best := case when abs(best) < 500000 then 0 else best end;
  update trunkline.kv_clock c set ahead = too_far, ahead_at = clock_timestamp(), lead = best
   where c.ahead is not null or too_far is not null or abs(c.lead - best) > 10000;  -- ten milliseconds
end $$;
