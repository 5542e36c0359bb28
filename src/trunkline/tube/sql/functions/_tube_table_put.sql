/* Make or change the row of an attachment.  Its name stays: documents downstream are kept under it.  When rows move
   to another shard, the documents in the shards of before are looked at again.  A backfill that is under way begins anew
   when keys, shards or the condition change. */
create or replace function trunkline._tube_table_put(wanted trunkline.tube_table)
returns trunkline.tube_table language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  before trunkline.tube_table;
  stored trunkline.tube_table;
begin
  perform trunkline._lock_briefly();
  select a.* into before from trunkline.tube_table a
   where a.tube_id = wanted.tube_id and a.relation = wanted.relation and a.detached_at is null for no key update;
  insert into trunkline.tube_table as a (tube_id, relation, relation_name, key_columns, key_types, shard, shard_expression, condition, on_error)
  values (wanted.tube_id, wanted.relation, wanted.relation_name, wanted.key_columns, wanted.key_types, wanted.shard, wanted.shard_expression, wanted.condition, wanted.on_error)
  on conflict (tube_id, relation) where detached_at is null do update
     set key_columns = excluded.key_columns, key_types = excluded.key_types, shard = excluded.shard,
         shard_expression = excluded.shard_expression, condition = excluded.condition, on_error = excluded.on_error
  returning * into stored;
  if before.attachment is not null and (before.shard, before.shard_expression) is distinct from (stored.shard, stored.shard_expression) then
    perform trunkline._tube_put_control(before, 'truncate', null, 0);
  end if;
  if (before.key_columns, before.key_types, before.shard, before.shard_expression, before.condition)
     is distinct from (stored.key_columns, stored.key_types, stored.shard, stored.shard_expression, stored.condition) then
    perform trunkline._tube_backfill_restart(stored.attachment);
  end if;
  return stored;
end $$;
select trunkline._access('_tube_table_put(trunkline.tube_table)', 'writer');
