/* Put the triggers of an attachment on its table and on every partition, for writes that name a partition.  Each try
   makes writers wait no longer than tube.attach_lock_timeout; TL409 when tube.attach_patience is over. */
create or replace function trunkline._tube_trigger(attached trunkline.tube_table)
returns void language plpgsql as $$
declare
  children regclass[] := array(select trunkline._tube_untriggered(attached));
  late boolean := exists (select from trunkline._tube_hooks(attached.attachment) h);
  child regclass;
begin
  if cardinality(children) > 0 then
    perform trunkline._hook_lock(children, 'share row exclusive', 'tube.attach');
    foreach child in array children loop
      perform trunkline._tube_trigger_put(attached, child, late);
    end loop;
  end if;
end $$;
select trunkline._access('_tube_trigger(trunkline.tube_table)', 'writer');
