/* A slot of deliveries may leave when it is older than broker.retention and every handler of a lasting group has read what is
   in it for that handler, or when it is older than broker.hold, or when what is held takes more than broker.hold_bytes.  A group that had
   not read its part then learns it by _delivery_trim(), whether it lasts or not.  Asked again and again while a group does not read: then it
   looks at the last row of each lane.  Does not wait: while a transaction holds the row of such a group the slot stays.
   Both trimmed_to and left_to are told when the slot is found, maintain.settle before it is emptied: TRUNCATE hides the rows from
   older snapshots too, and whoever has one must be refused rather than see nothing. */
create or replace function trunkline._delivery_may_leave(ring text, slot int)
returns boolean language plpgsql as $$
declare
  child text := ring || '_' || slot;
  kept interval := trunkline._setting('broker.retention')::interval;
  held interval := greatest(trunkline._setting('broker.hold')::interval, kept);
  newest timestamptz;
  behind record;
  told int;
begin
  newest := (select s.left_at from trunkline.ring_slot s where s.ring = _delivery_may_leave.ring and s.slot = _delivery_may_leave.slot);
  if newest is null or newest > clock_timestamp() - kept then  -- it took rows not long ago: the last of them counts
    execute format('select max(d.at) from trunkline.%I d', child) into newest;
  end if;
  if newest > clock_timestamp() - kept then
    return false;
  end if;
  execute format($sql$
    select array_agg(b.group_id) as groups, array_agg(b.up_to) as up_tos, bool_or(b.lasting and b.up_to > b.trimmed_to) as hold
      from (select p.group_id, max(p.last_one) as up_to, g.lasting, g.trimmed_to
              from trunkline.broker_group g
             cross join lateral (
               select g.group_id, l.lane, d.first + d.n - 1 as last_one
                 from generate_series(0, g.lanes - 1) l (lane)
                cross join lateral (select d.first, d.n from trunkline.%1$I d where d.group_id = g.group_id and d.lane = l.lane order by d.first desc limit 1) d) p
             where case when exists (select from trunkline.broker_handler h where h.group_id = p.group_id)
                        then exists (select from trunkline.broker_handler h
                                      cross join lateral (select trunkline._broker_position(h.group_id, h.handler, p.lane) as up_to offset 0) c
                                      where h.group_id = p.group_id and c.up_to < p.last_one
                                        and (h.subscriptions is null or exists (
                                          select from trunkline.%1$I d cross join lateral unnest(d.subscriptions) with ordinality u (subscription, place)
                                           where d.group_id = p.group_id and d.lane = p.lane and d.first + u.place - 1 > c.up_to and u.subscription = any (h.subscriptions))))
                        else p.last_one > g.begins_after end
             group by p.group_id, g.lasting, g.trimmed_to) b $sql$, child) into behind;
  if behind.hold and newest > clock_timestamp() - held and not trunkline._broker_hold_full(trunkline._event_keep_from()) then
    return false;
  end if;
  perform 1 from trunkline.broker_group g where g.group_id = any (behind.groups) order by g.group_id for no key update skip locked;
  get diagnostics told = row_count;
  if told < cardinality(behind.groups) then
    return false;
  end if;
  perform trunkline._delivery_trim(child, behind.groups, behind.up_tos);
  execute format($sql$
    with gone as materialized (select d.group_id, max(d.first + d.n - 1) as up_to from trunkline.%I d group by 1),
    free as materialized (  -- one that somebody holds learns it another time, or with the next slot
      select g.group_id from trunkline.broker_group g join gone b on b.group_id = g.group_id and g.left_to < b.up_to
       order by g.group_id for no key update of g skip locked)
    update trunkline.broker_group g set left_to = b.up_to from free f join gone b using (group_id) where g.group_id = f.group_id $sql$, child);
  return true;
end $$;
