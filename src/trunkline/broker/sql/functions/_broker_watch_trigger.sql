/* Give a watched table and its parts the triggers that they miss, and take those away that nobody wants.  Each try makes writers
   wait no longer than broker.watch_lock_timeout; TL409 when broker.watch_patience is over. */
create or replace function trunkline._broker_watch_trigger(watched trunkline.broker_watched_table)
returns void language plpgsql as $$
declare
  change record;
begin
  perform trunkline._hook_lock(array_agg(distinct t.relation order by t.relation), case when bool_or(t.there) then 'access exclusive' else 'share row exclusive' end, 'broker.watch')
     from trunkline._broker_watch_triggers(watched) t having count(*) > 0;
  for change in select * from trunkline._broker_watch_triggers(watched) loop
    perform trunkline._broker_watch_trigger_put(watched, change.relation, change.operation, change.there);
  end loop;
end $$;
select trunkline._access('_broker_watch_trigger(trunkline.broker_watched_table)', 'writer');
