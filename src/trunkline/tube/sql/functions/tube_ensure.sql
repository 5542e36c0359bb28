/* Make a tube, or change its lanes and condition; what is NULL stays as it is, a condition of '' means none.
   The condition is a boolean expression over the columns of the attached tables; it runs with the rights of whoever
   writes.  A new condition waits for those who write to the tables; the same call again takes no lock.  It is not applied to rows
   that did not change: schedule a backfill; one that is under way begins anew.  Errors: TL409 no lock, TL422. */
create or replace function trunkline.tube_ensure(tube text, lanes int default null, condition text default null)
returns trunkline.tube language plpgsql as $$
declare
  before text;
  present trunkline.tube;
  attached trunkline.tube_table;
begin
  select t.condition into before from trunkline.tube_list() t where t.tube = tube_ensure.tube limit 1;
  present := trunkline._tube_put(tube, lanes, condition);
  if present.condition is distinct from before then
    perform trunkline._tube_check_syntax(present.condition);
    -- what is being written is judged as before: a backfill after this call must see it
    perform trunkline._hook_lock(array(select h from trunkline._tube_tables(present.tube_id) a, trunkline._hook_tree(a.relation) h), 'share row exclusive', 'tube.attach');
    for attached in select a.* from trunkline._tube_tables(present.tube_id) a loop
      perform trunkline._hook_check_expression(attached.relation, present.condition, 'boolean');
      perform trunkline._tube_generate(attached);
      perform trunkline._tube_backfill_restart(attached.attachment);
      raise notice 'tube "%": the new condition counts from now on; for rows that are there schedule a backfill', tube;
    end loop;
  end if;
  return present;
end $$;
comment on function trunkline.tube_ensure(text, int, text) is 'Make a tube, or change its lanes and condition; NULL keeps what is there.';
select trunkline._access('tube_ensure(text, int, text)', 'writer');
