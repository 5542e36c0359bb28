/* Before the schema is dropped: take the triggers from one attached table, which could not be written to without it.
   Returns whether there was one. */
create or replace function trunkline._uninstall_tube()
returns boolean language plpgsql as $$
declare
  present record;
begin
  select t.tube, a.relation into present from trunkline.tube_table a join trunkline.tube t using (tube_id) where a.detached_at is null limit 1;
  return found and trunkline.tube_detach(present.tube, present.relation);
end $$;
