/* End the lanes of a tube whose number changes: workers are fenced.  Returns the lowest position that all
   are done with; from there the new lanes begin, so that some entries are delivered again. */
create or replace function trunkline._tube_lanes_end(tube trunkline.tube)
returns bigint language plpgsql as $$
declare
  lowest bigint;
begin
  perform 1 from trunkline.cursor_key k where k.resource like format('tube:%s:%s:%%', tube.tube_id, tube.lanes) order by k.resource for no key update;
  delete from trunkline.owner o where o.resource like format('tube:%s:%s:%%', tube.tube_id, tube.lanes);
  select min((trunkline._cursor_latest(k.cursor_id)).up_to) into lowest
    from trunkline.cursor_key k where k.resource like format('tube:%s:%s:%%', tube.tube_id, tube.lanes);
  delete from trunkline.cursor_key k where k.resource like format('tube:%s:%s:%%', tube.tube_id, tube.lanes);
  return lowest;
end $$;
