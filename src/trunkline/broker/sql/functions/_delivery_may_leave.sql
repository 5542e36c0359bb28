/* A slot of deliveries may leave when it is older than broker.retention and every handler of a lasting group has read it,
   or when it is older than broker.hold.  A group that had not read its part then learns it by trimmed_to. */
create or replace function trunkline._delivery_may_leave(ring text, slot int)
returns boolean language plpgsql as $$
declare
  kept interval := trunkline._setting('broker.retention')::interval;
  held interval := greatest(trunkline._setting('broker.hold')::interval, kept);
  newest timestamptz;
  behind jsonb;
begin
  execute format('select max(d.at) from trunkline.%I d', ring || '_' || slot) into newest;
  if newest > clock_timestamp() - kept then
    return false;
  end if;
  execute format($sql$
    select jsonb_agg(jsonb_build_object('group_id', p.group_id, 'up_to', p.last_one))
      from (select d.group_id, d.lane, max(d.first + d.n - 1) as last_one from trunkline.%I d group by 1, 2) p
      join trunkline.broker_group g on g.group_id = p.group_id and g.lasting
     where p.last_one > coalesce((select min(trunkline._broker_position(h.group_id, h.handler, p.lane)) from trunkline.broker_handler h where h.group_id = p.group_id), g.begins_after) $sql$,
    ring || '_' || slot) into behind;
  if behind is not null and newest > clock_timestamp() - held then
    return false;
  end if;
  update trunkline.broker_group g set trimmed_to = greatest(g.trimmed_to, b.up_to)
    from (select r.group_id, max(r.up_to) as up_to from jsonb_to_recordset(behind) r (group_id int, up_to bigint) group by 1) b
   where g.group_id = b.group_id and g.trimmed_to < b.up_to;
  return true;
end $$;
