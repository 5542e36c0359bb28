/* Note the columns of a live table.  When one has another name than before, or is gone, what was written until now is history that is told to
   nobody: its values stand under names that mean something else by now.  Every event from before the change has a lower id than the next one.
   The same is so when triggers begin to mark what they write, which those from before there were marks do once the table is watched again. */
create or replace function trunkline._live_note(relation regclass)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  update trunkline.live_table t
     set column_names = n.names,
         history_from = case when not n.marked and (n.names @> t.column_names or t.history_from = 9223372036854775807) then t.history_from else coalesce(pg_sequence_last_value('trunkline.event_seq'), 0) end
    from (select l.relation, trunkline._live_names(l.relation) as names,
                 l.history_from = 9223372036854775807 and trunkline._broker_watch_marks(w) as marked
            from trunkline.live_table l join trunkline.broker_watched_table w on w.relation = l.relation where l.relation = $1) n
   where t.relation = n.relation and (t.column_names <> n.names or n.marked);
$$;
