/* Lanes of tubes: what waits, since when, who works on it.  TL404. */
create or replace function trunkline.tube_stats(tube text default null)
returns table (tube text, lane int, live_entries bigint, backfill_entries bigint, oldest_at timestamptz, live_up_to bigint, backfill_up_to bigint,
               head bigint, epoch bigint, process uuid, process_name text, parked bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select from trunkline._tube_row($1) where $1 is not null;
  select t.tube, l.lane, live.n, back.n, least(live.oldest, back.oldest), p.live, p.back, h.head, o.epoch, o.process, e.name,
         (select count(*) from trunkline.tube_parked k where k.tube_id = t.tube_id and k.shard % t.lanes = l.lane)
    from trunkline.tube t cross join lateral generate_series(0, t.lanes - 1) l (lane)
    cross join lateral (select trunkline.tube_head() as head) h
    cross join lateral (select trunkline._tube_position(t, l.lane, 0) as live, trunkline._tube_position(t, l.lane, 1) as back) p
    cross join lateral trunkline._tube_waiting(t, l.lane, 0, p.live + 1, h.head) live
    cross join lateral trunkline._tube_waiting(t, l.lane, 1, p.back + 1, h.head) back
    left join trunkline.owner o on o.resource = trunkline._tube_resource(t, l.lane)
    left join trunkline.lease e on e.process = o.process
   where $1 is null or t.tube = $1
   order by t.tube, l.lane;
$$;
comment on function trunkline.tube_stats(text) is 'Lanes of tubes: what waits, since when, who works on it.';
select trunkline._access('tube_stats(text)', 'reader');
