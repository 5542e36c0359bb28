/* Handlers of groups, lane by lane: what waits, since when, what failed, who works on it.  TL404. */
create or replace function trunkline.broker_lag(group_name text default null)
returns table (group_name text, handler text, lane int, waiting bigint, oldest_at timestamptz, up_to bigint, head bigint, retrying bigint, parked bigint, dead bigint,
               epoch bigint, process uuid, process_name text)
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select from trunkline._broker_group_row($1) where $1 is not null;
  select g.group_name, h.handler, l.lane, w.n, w.oldest, c.up_to, coalesce(w.head, c.up_to), r.retrying, r.parked, r.dead, o.epoch, o.process, e.name
    from trunkline.broker_group g join trunkline.broker_handler h using (group_id) cross join lateral generate_series(0, g.lanes - 1) l (lane)
    cross join lateral (select trunkline._broker_position(g.group_id, h.handler, l.lane) as up_to offset 0) c  -- looked up once, not for each delivery
    cross join lateral (
      select coalesce((select b.first from trunkline.delivery b where b.group_id = g.group_id and b.lane = l.lane and b.first <= c.up_to + 1 order by b.first desc limit 1), 0) as first offset 0) f
    cross join lateral (  -- the numbers of subscriptions are looked at only for a handler that reads some of them
      select coalesce(sum(d.first + d.n - 1 - greatest(c.up_to, d.first - 1)), 0)::bigint as n, min(d.at) as oldest, max(d.first + d.n - 1) as head
        from trunkline.delivery d
       where h.subscriptions is null and d.group_id = g.group_id and d.lane = l.lane and d.first + d.n - 1 > c.up_to and d.first >= f.first
      having h.subscriptions is null
      union all
      select count(*), min(d.at), max(d.first + d.n - 1)
        from trunkline.delivery d cross join lateral unnest(d.subscriptions) with ordinality u (subscription, place)
       where h.subscriptions is not null and d.group_id = g.group_id and d.lane = l.lane and d.first + u.place - 1 > c.up_to and d.first >= f.first
         and u.subscription = any (h.subscriptions)
      having h.subscriptions is not null) w
    cross join lateral (
      select count(*) filter (where t.status = 'waiting') as retrying, count(*) filter (where t.status = 'parked') as parked, count(*) filter (where t.status = 'dead') as dead
        from trunkline.broker_retry t where t.group_id = g.group_id and t.handler = h.handler and t.lane = l.lane) r
    left join trunkline.owner o on o.resource = trunkline._broker_resource(g.group_id, h.handler, l.lane)
    left join trunkline.lease e on e.process = o.process
   where $1 is null or g.group_name = $1
   order by g.group_name, h.handler, l.lane;
$$;
comment on function trunkline.broker_lag(text) is 'Handlers of groups, lane by lane: what waits, since when, what failed, who works on it.';
select trunkline._access('broker_lag(text)', 'reader');
