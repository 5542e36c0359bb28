/* Where a member of a group begins on a partition: after the last offset that the group is done with.  A partition that was added after
   the group was made starts at 1.  A group that was sought to earliest, see log_seek(), starts at the first offset, archived or not, and from
   now on stands there: what leaves after this is missed.  If somebody holds the cursor the next call notes that.
   Locks: cursor_key, waits for nobody: the caller holds owners, and a commit takes the two in the other order. */
create or replace function trunkline._log_position(part trunkline.log_partition, group_name text)
returns bigint language plpgsql as $$
declare
  name text := trunkline._log_resource(part.topic_id, group_name, part.partition);
  seen trunkline.cursor;
begin
  select c.* into seen from trunkline.cursor_key k cross join lateral trunkline._cursor_latest(k.cursor_id) c where k.resource = name;
  if seen.up_to = -1 then
    perform 1 from trunkline.cursor_key k where k.cursor_id = seen.cursor_id for no key update skip locked;
    if found then
      seen := trunkline._cursor_latest(seen.cursor_id);
      if seen.up_to = -1 then
        seen := trunkline._cursor_move(seen, trunkline._log_first(part) - 1);
      end if;
    end if;
  end if;
  return trunkline._log_done_up_to(part, seen.up_to);
end $$;
