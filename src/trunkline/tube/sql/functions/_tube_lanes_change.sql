/* Share the work of a tube among another number of lanes.  Control entries of tables whose rows compute their shard
   were written once for every lane: those that are not done are written again for the new ones. */
create or replace function trunkline._tube_lanes_change(before trunkline.tube, after trunkline.tube)
returns void language plpgsql as $$
declare
  lowest bigint := trunkline._tube_lanes_end(before);
  undone record;
begin
  perform trunkline._tube_lanes_begin(after, lowest);
  for undone in
    with open_entry as (
      select e.* from generate_series(0, before.lanes - 1) lane, generate_series(0, 1) p,
             trunkline._tube_positions(before, lane, p, lowest + 1, trunkline.tube_head()) n join trunkline.tube_entry e on e.xid = n.xid and e.seq = n.seq
      union all
      select e.* from trunkline._tube_unnumbered(before.tube_id) e)
    select a as attached, e.control, e.payload, e.priority, min(e.seq) as seq
      from open_entry e join trunkline.tube_table a on a.attachment = e.attachment and a.shard is null
     where e.control in ('truncate', 'backfill_end') group by 1, 2, 3, 4 order by 5
  loop
    perform trunkline._tube_put_control(undone.attached, undone.control, undone.payload, undone.priority);
  end loop;
end $$;
