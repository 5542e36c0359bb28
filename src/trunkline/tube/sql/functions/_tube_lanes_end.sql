/* End the lanes of a tube whose number changes: workers are fenced.  Owners stay with a higher epoch: lanes of
   the same number may come back, and those who worked them must not be taken for the new ones.  Returns the lowest
   position that all are done with; from there the new lanes begin, so that some entries are delivered again. */
create or replace function trunkline._tube_lanes_end(tube trunkline.tube)
returns bigint language plpgsql as $$
declare
  ours text := format('tube:%s:%s:%%', tube.tube_id, tube.lanes);
  lowest bigint;
begin
  perform 1 from trunkline.cursor_key k where k.resource like ours order by k.resource for no key update;
  update trunkline.owner o set epoch = o.epoch + 1, process = null, since = clock_timestamp() where o.resource like ours;
  select min((trunkline._cursor_latest(k.cursor_id)).up_to) into lowest from trunkline.cursor_key k where k.resource like ours;
  delete from trunkline.cursor_key k where k.resource like ours;
  return lowest;
end $$;
