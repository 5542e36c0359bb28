/* Events by their positions, in no order; those that have left are missing.  Every tick that is touched is opened once;
   events are looked up by (xid, seq), first in the slot that took rows when the first of the ticks was taken. */
create or replace function trunkline._event_rows(positions bigint[])
returns table (event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, subscription bigint, at timestamptz)
language plpgsql stable set enable_seqscan = off set enable_nestloop = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  wanted record;
  child text;
  found_rows bigint;
begin
  with wanted as materialized (select distinct u.place from unnest(positions) u (place)),
  steps as (select w.place, w.place - lag(w.place) over (order by w.place) as step from wanted w),
  runs as (  -- places that are near each other: one look into the index of ticks for each
    select min(r.place) as low, max(r.place) as high
      from (select s.place, count(*) filter (where s.step > 100) over (order by s.place) as run from steps s) r group by r.run),
  touched as (
    select distinct t.slot, t.tick
      from runs r cross join lateral (
        select t.slot, t.tick from trunkline.tick t
         where t.sequence = 'event' and t.first_position <= r.high
           and t.first_position >= coalesce((select b.first_position from trunkline.tick b
                 where b.sequence = 'event' and b.first_position <= r.low order by b.first_position desc limit 1), 0) offset 0) t),
  numbered as (
    select t.first_position + u.ordinal - 1 as place, u.xid, u.seq, t.at
      from touched x cross join lateral (
        select t.* from trunkline.tick t where t.sequence = 'event' and t.tick = x.tick and t.slot = x.slot offset 0) t
     cross join lateral unnest(t.xids, t.seqs) with ordinality u (xid, seq, ordinal))
  select array_agg(n.place) as places, array_agg(n.xid) as xids, array_agg(n.seq) as seqs, min(n.at) as at into wanted
    from numbered n join wanted w on w.place = n.place;

  for child in
    select format('trunkline.%I', 'event_' || s.slot)
      from (select u.slot, u.until, row_number() over (partition by u.until > wanted.at order by u.until) as nth
              from (select s.slot, case when s.slot = r.current then 'infinity' else s.left_at end as until
                      from trunkline.ring r join trunkline.ring_slot s on s.ring = r.ring where r.ring = 'event') u) s
     where wanted.places is not null
     order by (s.until > wanted.at and s.nth = 1) desc nulls last, s.until > wanted.at, s.until desc nulls last
  loop
    return query execute format($sql$
      select w.place, coalesce(e.event_id, e.seq), e.topic::text, e.key::text, e.payload, e.metadata::jsonb, e.subscription, e.at
        from unnest($1, $2, $3) w (place, xid, seq)
        cross join lateral (select * from %s e where e.xid = w.xid and e.seq = w.seq offset 0) e $sql$, child)
      using wanted.places, wanted.xids, wanted.seqs;
    get diagnostics found_rows = row_count;
    exit when found_rows = cardinality(wanted.places);
    if found_rows > 0 then
      execute format($sql$
        select array_agg(w.place) as places, array_agg(w.xid) as xids, array_agg(w.seq) as seqs, $4 as at
          from unnest($1, $2, $3) w (place, xid, seq)
         where not exists (select from %s e where e.xid = w.xid and e.seq = w.seq offset 0) $sql$, child)
        into wanted using wanted.places, wanted.xids, wanted.seqs, wanted.at;
    end if;
  end loop;
end $$;
