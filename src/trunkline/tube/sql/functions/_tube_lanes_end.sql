/* End the lanes of a tube whose number changes: workers are fenced.  Owners stay with a higher epoch, above
   which those of the next lanes begin.  Returns the lowest
   position that all are done with; from there the new lanes begin, so that some entries are delivered again. */
create or replace function trunkline._tube_lanes_end(tube trunkline.tube)
returns bigint language plpgsql as $$
declare
  ours text := format('tube:%s:%s:%%', tube.tube_id, tube.lanes);
  lowest bigint;
begin
  perform trunkline._lock_briefly();
  perform 1 from trunkline.cursor_key k where k.resource like ours order by k.resource for no key update;
  update trunkline.owner o set epoch = o.epoch + 1, process = null, since = clock_timestamp() where o.resource like ours;
  select min((trunkline._cursor_latest(k.cursor_id)).up_to) into lowest from trunkline.cursor_key k where k.resource like ours;
  delete from trunkline.cursor_key k where k.resource like ours;
  return lowest;
end $$;
