/* Groups: how many lanes, subscriptions and handlers they have, what waits in them, and since when nobody reads them. */
create or replace function trunkline.broker_groups()
returns table (group_name text, lanes int, lasting boolean, subscriptions bigint, quarantined bigint, handlers bigint, waiting numeric, dead numeric, trimmed_to bigint,
               idle_since timestamptz, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select g.group_name, g.lanes, g.lasting, s.n, s.quarantined, (select count(*) from trunkline.broker_handler h where h.group_id = g.group_id),
         coalesce(l.waiting, 0), coalesce(l.dead, 0), g.trimmed_to, g.idle_since, g.created_at
    from trunkline.broker_group g
    cross join lateral (select count(*) as n, count(u.quarantined_at) as quarantined from trunkline.broker_subscription u where u.group_id = g.group_id) s
    cross join lateral (select sum(w.waiting) as waiting, sum(w.dead) as dead from trunkline.broker_lag(g.group_name) w) l
   order by g.group_name;
$$;
comment on function trunkline.broker_groups() is 'Groups: lanes, subscriptions, handlers, and what waits in them.';
select trunkline._access('broker_groups()', 'reader');
