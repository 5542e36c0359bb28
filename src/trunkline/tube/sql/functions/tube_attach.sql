/* Capture the changes of a table into a tube: insert, update (both images), delete and truncate, in the
   transaction that makes them.  You must own the table.  shard is a number from 0, or an expression over the row; left
   out it is the number at the end of the schema's or the table's name, else 0.  key_columns default to the primary
   key.  on_error: 'fail' refuses a write that cannot be captured (the default), 'gap' lets it through and marks the table for a
   backfill.  For a table that is attached, what is left out stays as it is, and a condition of '' means none.  Expressions run as the role that
   names them, or as who writes.  The same call again takes no lock; it gives partitions that came later their triggers, and a table that
   was moved to another schema the function that they call.
   Errors: TL403 not yours, TL404, TL409 no lock, TL422 key, shard or condition do not fit. */
create or replace function trunkline.tube_attach(
  tube text, relation regclass, shard text default null, condition text default null, key_columns text[] default null, on_error text default null)
returns trunkline.tube_table language plpgsql
set quote_all_identifiers = off as $$
declare
  owner trunkline.tube := trunkline._tube_row(tube);
  present trunkline.tube_table := trunkline._tube_table_row(owner.tube_id, relation);
  wanted trunkline.tube_table;
begin
  wanted := trunkline._tube_wanted(owner, relation, coalesce(shard, present.shard::text, present.shard_expression), coalesce(condition, present.condition),
    coalesce(key_columns, trunkline._tube_keys_there(present)), coalesce(on_error, present.on_error, 'fail'));
  if present.attachment is not null
     and (present.shard, present.shard_expression, present.condition, present.key_columns, present.key_types, present.on_error)
         is not distinct from (wanted.shard, wanted.shard_expression, wanted.condition, wanted.key_columns, wanted.key_types, wanted.on_error)
     and exists (select from pg_roles r where r.rolname = present.role) and trunkline._tube_function_there(present) and not exists (select from trunkline._tube_untriggered(present) u) then
    return present;
  end if;
  owner := trunkline._tube_hold(owner.tube_id);
  if present.attachment is not null and (present.shard, present.shard_expression, present.condition, present.key_columns, present.key_types)
     is distinct from (wanted.shard, wanted.shard_expression, wanted.condition, wanted.key_columns, wanted.key_types) then
    -- what is being written is captured as before: a backfill after this call must see it
    perform trunkline._hook_lock(array(select trunkline._hook_tree(relation)), 'share row exclusive', 'tube.attach');
  end if;
  perform trunkline._tube_check(owner, wanted);
  wanted := trunkline._tube_table_put(wanted);
  perform trunkline._tube_generate(wanted);
  perform trunkline._tube_trigger(wanted);
  return wanted;
end $$;
comment on function trunkline.tube_attach(text, regclass, text, text, text[], text) is 'Capture the changes of a table into a tube.';
select trunkline._access('tube_attach(text, regclass, text, text, text[], text)', 'writer');
