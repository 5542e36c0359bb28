/* Tell groups that what they have not read of a slot of deliveries leaves: in their rows, which are held, by trimmed_to and by what was
   lost, and everybody by an event about each.  Once: what was told is not told again. */
create or replace function trunkline._delivery_trim(child text, groups int[], up_tos bigint[])
returns void language plpgsql as $$
declare
  late int[] := array(select g.group_id from unnest(groups, up_tos) b (group_id, up_to) join trunkline.broker_group g using (group_id) where g.trimmed_to < b.up_to);
begin
  if late = '{}' then
    return;
  end if;
  with lost as materialized (select * from trunkline._delivery_lost(child, late)),
  noted as (
    update trunkline.broker_group g
       set trimmed_to = b.up_to, lost = g.lost + coalesce(l.lost, 0), lost_first = coalesce(l.lost_first, g.lost_first), lost_last = coalesce(l.lost_last, g.lost_last),
           lost_at = case when l.lost > 0 then clock_timestamp() else g.lost_at end,
           untold_from = case when exists (select from trunkline.broker_handler h where h.group_id = g.group_id) then g.untold_from else coalesce(g.untold_from, l.lost_first) end
      from unnest(groups, up_tos) b (group_id, up_to) left join lost l using (group_id)
     where g.group_id = b.group_id and g.group_id = any (late)
    returning g.group_name, g.lasting, b.up_to, l.lost, l.lost_first, l.lost_last, l.worth_telling)
  -- a plain INSERT waits for nobody, whatever the topic's key_order
  insert into trunkline.event (topic, key, payload)
  select 'trunkline.group.trimmed', n.group_name, jsonb_build_object('group', n.group_name, 'lasting', n.lasting, 'lost', n.lost, 'first', n.lost_first::text, 'last', n.lost_last::text)
    from noted n where n.worth_telling order by n.group_name;
end $$;
