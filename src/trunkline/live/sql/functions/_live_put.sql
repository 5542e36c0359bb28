/* Note a live table.  What was written before is not told.  Where it was unwatched meanwhile, unseen writes may lie between: its subscriptions end.  TL403. */
create or replace function trunkline._live_put(relation regclass, made_watch boolean, tagged boolean)
returns trunkline.live_table language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  stored trunkline.live_table;
begin
  perform trunkline._broker_watch_may(relation);
  perform trunkline._live_end(t.relation) from trunkline.live_table t join trunkline.broker_watched_table w on w.relation = t.relation
    where t.relation = _live_put.relation and w.watched_at > t.created_at;
  insert into trunkline.live_table (relation, made_watch, tagged, column_names, history_from)
  values (relation, made_watch, tagged, trunkline._live_names(relation), coalesce(pg_sequence_last_value('trunkline.event_seq'), 0))
  on conflict do nothing;
  if found then
    perform pg_notify('trunkline', 'live:tables');
  else
    perform trunkline._live_note(relation);
    update trunkline.live_table t set tagged = false where t.relation = _live_put.relation and t.tagged and not _live_put.tagged;
  end if;
  select t.* into stored from trunkline.live_table t where t.relation = _live_put.relation;
  return stored;
end $$;
select trunkline._access('_live_put(regclass, boolean, boolean)', 'writer');
