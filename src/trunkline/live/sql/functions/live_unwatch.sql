/* A table is live no longer: subscriptions to it end.  It stays watched if it was before live_watch().  You must own the table.
   Returns whether it was live.  Errors: TL403, TL409 no lock. */
create or replace function trunkline.live_unwatch(relation regclass)
returns boolean language plpgsql as $$
declare
  present trunkline.live_table := trunkline._live_row(relation);
begin
  if present.relation is null then
    return false;
  end if;
  perform trunkline._live_end(relation);
  if present.made_watch then
    perform trunkline.broker_unwatch(relation);
  end if;
  return true;
end $$;
comment on function trunkline.live_unwatch(regclass) is 'A table is live no longer.';
select trunkline._access('live_unwatch(regclass)', 'writer');
