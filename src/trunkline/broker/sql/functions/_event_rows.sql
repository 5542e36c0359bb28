/* Events by their positions, in no order; those that have left are missing.  Every tick that is touched is opened once;
   events are looked up by (xid, seq), first in the slot that took rows when the first of the ticks was taken.  Positions of
   a moment ago are found in the current slot of ticks. */
create or replace function trunkline._event_rows(positions bigint[])
returns table (event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, subscription bigint, at timestamptz, watch int)
language plpgsql stable set enable_seqscan = off set enable_nestloop = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  here int := trunkline._ring_current('tick');
  reach record;
  wanted record;
  number int;
  found_rows bigint;
begin
  select min(u.place) as low, max(u.place) as high,
         (select t.first_position from trunkline.tick t
           where t.slot = here and t.sequence = 'event' and t.first_position <= min(u.place) order by t.first_position desc limit 1) as first_tick
    into reach from unnest(positions) u (place);
  if reach.high - reach.low < 1000 and reach.first_tick is not null then
    select array_agg(n.place) as places, array_agg(n.xid) as xids, array_agg(n.seq) as seqs, min(n.at) as at into wanted
      from (select t.first_position + u.ordinal - 1 as place, u.xid, u.seq, t.at
              from trunkline.tick t cross join lateral unnest(t.xids, t.seqs) with ordinality u (xid, seq, ordinal)
             where t.slot = here and t.sequence = 'event' and t.first_position between reach.first_tick and reach.high) n
      join (select distinct u.place from unnest(positions) u (place)) w on w.place = n.place;
  else
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
  end if;

  for number in
    select s.slot
      from (select u.slot, u.until, row_number() over (partition by u.until > wanted.at order by u.until) as nth
              from (select s.slot, case when s.slot = r.current then 'infinity' else s.left_at end as until
                      from trunkline.ring r join trunkline.ring_slot s on s.ring = r.ring where r.ring = 'event') u) s
     where wanted.places is not null
     order by (s.until > wanted.at and s.nth = 1) desc nulls last, s.until > wanted.at, s.until desc nulls last
  loop
    return query
      select w.place, coalesce(e.event_id, e.seq), e.topic::text, e.key::text, e.payload, e.metadata::jsonb, e.subscription, e.at, e.watch
        from unnest(wanted.places, wanted.xids, wanted.seqs) w (place, xid, seq)
       cross join lateral (select * from trunkline.event e where e.slot = number and e.xid = w.xid and e.seq = w.seq offset 0) e;
    get diagnostics found_rows = row_count;
    exit when found_rows = cardinality(wanted.places);
    if found_rows > 0 then
      select array_agg(w.place) as places, array_agg(w.xid) as xids, array_agg(w.seq) as seqs, wanted.at as at into wanted
        from unnest(wanted.places, wanted.xids, wanted.seqs) w (place, xid, seq)
       where not exists (select from trunkline.event e where e.slot = number and e.xid = w.xid and e.seq = w.seq offset 0);
    end if;
  end loop;
end $$;
