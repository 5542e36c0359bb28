/* A group goes with all that belongs to it; its deliveries leave with their slots. */
create or replace function trunkline._broker_group_end(group_id int)
returns void language plpgsql as $$
begin
  delete from trunkline.party p where p.party like format('broker:%s:%%', _broker_group_end.group_id);
  -- cursors before owners, as a commit takes them, or the two could wait for each other
  delete from trunkline.cursor_key k where k.resource like format('broker:%s:%%', _broker_group_end.group_id);
  delete from trunkline.owner o where o.resource like format('broker:%s:%%', _broker_group_end.group_id);
  delete from trunkline.broker_group g where g.group_id = _broker_group_end.group_id;
end $$;
