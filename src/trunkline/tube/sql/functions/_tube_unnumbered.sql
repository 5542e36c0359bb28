/* Entries of a tube that the last tick did not see. */
create or replace function trunkline._tube_unnumbered(tube_id int)
returns setof trunkline.tube_entry language plpgsql stable as $$
declare
  last trunkline.tick := trunkline._tick_latest('tube_entry');
begin
  return query select e.* from trunkline.tube_entry e
    where e.tube_id = _tube_unnumbered.tube_id
      and (last.tick is null or e.xid_space = last.xid_space and not pg_visible_in_snapshot(e.xid, last.snapshot)
           or e.xid_space <> last.xid_space and e.xid_space <> all (last.spaces_before));
end $$;
