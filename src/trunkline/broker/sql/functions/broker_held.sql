/* What unread events cost: the bytes that events and deliveries take, the limit (NULL: none), and the lasting group that has waited the longest, with
   its handler and the time of the first delivery that it has not read; NULL when no group is behind. */
create or replace function trunkline.broker_held()
returns table (bytes bigint, most bigint, group_name text, handler text, since timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select trunkline._broker_held_bytes(trunkline._event_keep_from()), nullif(trunkline._setting('broker.hold_bytes')::bigint, 0), o.group_name, o.handler, o.since
    from (values (true)) one left join (
      select g.group_name, h.handler, d.at as since
        from trunkline.broker_group g left join trunkline.broker_handler h using (group_id) cross join lateral generate_series(0, g.lanes - 1) l (lane)
        cross join lateral (select greatest(coalesce(trunkline._broker_position(g.group_id, h.handler, l.lane), g.begins_after), g.trimmed_to) as up_to offset 0) c
        cross join lateral (
          select r.at from trunkline.delivery r
           where r.group_id = g.group_id and r.lane = l.lane and r.first + r.n - 1 > c.up_to
             and r.first >= coalesce((select b.first from trunkline.delivery b where b.group_id = g.group_id and b.lane = l.lane and b.first <= c.up_to order by b.first desc limit 1), 0)
           order by r.first limit 1) d
       where g.lasting order by d.at limit 1) o on true;
$$;
comment on function trunkline.broker_held() is 'What unread events cost, the limit, and the group that has waited the longest.';
select trunkline._access('broker_held()', 'reader');
