/* Watch a table: every row that is inserted, updated or deleted becomes an event, in the transaction that writes, and so does a
   TRUNCATE.  Topics are schema.table.insert, .update, .delete and .truncate in lower case; keys are the primary key as text, a JSON
   array of several columns.  The payload is the new row, of a delete the old one, of an update what changed (also to NULL) and the key;
   metadata has op and table, and of an update the old row as old.
   columns: only these and the key, and an update that changes none of them is no event.  condition: only rows for which it
   holds; an update by which a row enters is an insert, one by which it leaves a delete.  So is one that changes the key, under both keys.
   You must own the table.  The same call again takes no lock; it gives parts that came later their triggers.
   Errors: TL403 not yours, TL409 no lock, TL422 table, columns or condition do not fit. */
create or replace function trunkline.broker_watch(relation regclass, on_insert boolean default true, on_update boolean default true,
  on_delete boolean default true, on_truncate boolean default true, columns text[] default null, condition text default null)
returns trunkline.broker_watched_table language plpgsql
set quote_all_identifiers = off as $$
declare
  wanted trunkline.broker_watched_table := trunkline._broker_watch_wanted(relation,
    array_remove(array[case when on_insert then 'insert' end, case when on_update then 'update' end, case when on_delete then 'delete' end,
                       case when on_truncate then 'truncate' end], null), columns, condition);
  present trunkline.broker_watched_table := trunkline._broker_watch_row(relation);
begin
  if present.watch is not null and present.fault is null
     and (present.relation_name, present.topic, present.operations, present.columns, present.key_columns, present.condition)
         is not distinct from (wanted.relation_name, wanted.topic, wanted.operations, wanted.columns, wanted.key_columns, wanted.condition)
     and not exists (select from trunkline._broker_watch_triggers(present)) and trunkline._broker_watch_generated(present) then
    return present;
  end if;
  perform trunkline._broker_watch_check(wanted);
  wanted := trunkline._broker_watch_put(wanted);
  perform trunkline._broker_watch_generate(wanted);
  perform trunkline._broker_watch_trigger(wanted);
  return wanted;
end $$;
comment on function trunkline.broker_watch(regclass, boolean, boolean, boolean, boolean, text[], text) is 'Watch a table: what is written to it becomes events.';
select trunkline._access('broker_watch(regclass, boolean, boolean, boolean, boolean, text[], text)', 'writer');
