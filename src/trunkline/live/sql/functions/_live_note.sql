/* Note the columns of a live table.  When one has another name than before, or is gone, what was written until now is history that is told to
   nobody: its values stand under names that mean something else by now.  Every event from before the change has a lower id than the next one. */
create or replace function trunkline._live_note(relation regclass)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  update trunkline.live_table t
     set column_names = n.names,
         history_from = case when n.names @> t.column_names then t.history_from else coalesce(pg_sequence_last_value('trunkline.event_seq'), 0) end
    from (select trunkline._live_names($1) as names) n
   where t.relation = $1 and t.column_names <> n.names;
$$;
