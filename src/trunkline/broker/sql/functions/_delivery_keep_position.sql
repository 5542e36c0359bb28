/* The lowest position of an event that a lasting group has still to read; NULL when there is none.  What has left of its deliveries is
   no longer to be read: so an event stays as long as they do.
   Looks at one row of each lane, and at those of the history: a group that does not read for a year costs no more than another. */
create or replace function trunkline._delivery_keep_position()
returns bigint language sql stable set enable_seqscan = off as $$
  select min(least(d.lowest, a.lowest))
    from trunkline.broker_group g cross join lateral generate_series(0, g.lanes - 1) l (lane)
    cross join lateral (select greatest(coalesce(min(trunkline._broker_position(h.group_id, h.handler, l.lane)), g.begins_after), g.trimmed_to) as up_to from trunkline.broker_handler h where h.group_id = g.group_id) c
    cross join lateral (
      select coalesce((select b.first from trunkline.delivery b where b.group_id = g.group_id and b.lane = l.lane and b.first <= c.up_to order by b.first desc limit 1), 0) as first) f
    left join lateral (
      select r.lowest from trunkline.delivery r
       where r.group_id = g.group_id and r.lane = l.lane and r.first + r.n - 1 > c.up_to and r.first >= f.first and not r.late
       order by r.first limit 1) d on true
    left join lateral (
      select min(r.lowest) as lowest from trunkline.delivery r
       where r.group_id = g.group_id and r.lane = l.lane and r.first + r.n - 1 > c.up_to and r.first >= f.first and r.late) a on true
   where g.lasting;
$$;
