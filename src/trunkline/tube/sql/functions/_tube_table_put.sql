/* Make or change the row of an attachment.  Its name stays: documents downstream are kept under it.  When rows move
   to another shard, the documents in the shards of before are looked at again.  A backfill that is under way begins anew
   when keys, shards or the condition change.  Expressions run as the role that named them; where another one named some of them and the caller
   the rest, as the one of both that the other may act as.  Errors: TL403 not yours, or neither may act as the other. */
create or replace function trunkline._tube_table_put(wanted trunkline.tube_table)
returns trunkline.tube_table language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  before trunkline.tube_table;
  stored trunkline.tube_table;
  caller name := trunkline._caller();
begin
  if not exists (select from pg_class c where c.oid = wanted.relation and pg_has_role(caller, c.relowner, 'usage')) then
    perform trunkline._raise('TL403', format('table %s is not yours: only its owner may attach it.', wanted.relation));
  end if;
  perform trunkline._tube_may(t.tube, 'manage') from trunkline.tube t where t.tube_id = wanted.tube_id;
  perform trunkline._lock_briefly();
  select a.* into before from trunkline.tube_table a
   where a.tube_id = wanted.tube_id and a.relation = wanted.relation and a.detached_at is null for no key update;
  wanted.role := caller;
  if exists (select from pg_roles r where r.rolname = before.role)
     and (wanted.condition = before.condition or wanted.shard_expression = before.shard_expression) and not trunkline._may_act(before.role, caller) then
    if not trunkline._may_act(caller, before.role) then
      perform trunkline._raise('TL403', format('the expressions of table %s were set by %I, which %I may not act as.', wanted.relation, before.role, caller),
        'Name both, condition and shard, differently, or detach the table first.');
    end if;
    wanted.role := before.role;
  end if;
  insert into trunkline.tube_table as a (tube_id, relation, relation_name, key_columns, key_types, shard, shard_expression, condition, on_error, role)
  values (wanted.tube_id, wanted.relation, wanted.relation_name, wanted.key_columns, wanted.key_types, wanted.shard, wanted.shard_expression, wanted.condition, wanted.on_error,
          wanted.role)
  on conflict (tube_id, relation) where detached_at is null do update
     set key_columns = excluded.key_columns, key_types = excluded.key_types, shard = excluded.shard,
         shard_expression = excluded.shard_expression, condition = excluded.condition, on_error = excluded.on_error, role = excluded.role
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
