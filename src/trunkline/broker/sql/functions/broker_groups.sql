/* Groups: how many lanes, subscriptions and handlers they have, what waits in them and since when, since when no reader is there, and what has left
   before they had read it: how many deliveries in all, and first, last and time of those that left the last time. */
create or replace function trunkline.broker_groups()
returns table (group_name text, lanes int, lasting boolean, subscriptions bigint, quarantined bigint, handlers bigint, waiting numeric, waiting_since timestamptz, dead numeric, trimmed_to bigint,
               lost bigint, lost_first bigint, lost_last bigint, lost_at timestamptz, idle_since timestamptz, owner name, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select g.group_name, g.lanes, g.lasting, s.n, s.quarantined, (select count(*) from trunkline.broker_handler h where h.group_id = g.group_id),
         coalesce(l.waiting, 0), l.since, coalesce(l.dead, 0), g.trimmed_to,
         g.lost, g.lost_first, g.lost_last, g.lost_at, g.idle_since, (select o.owner from trunkline.object o where o.object = 'group:' || g.group_name), g.created_at
    from trunkline.broker_group g
    cross join lateral (select count(*) as n, count(u.quarantined_at) as quarantined from trunkline.broker_subscription u where u.group_id = g.group_id) s
    cross join lateral (select sum(w.waiting) as waiting, min(w.oldest_at) as since, sum(w.dead) as dead from trunkline.broker_lag(g.group_name) w) l
   order by g.group_name;
$$;
comment on function trunkline.broker_groups() is 'Groups: lanes, subscriptions, handlers, what waits in them, and what they have lost.';
select trunkline._access('broker_groups()', 'reader');
