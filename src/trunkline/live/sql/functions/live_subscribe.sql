/* Be told of the rows of a live table that change, as far as the caller may see them; returns the number of the subscription and who is told.
   condition: by column, each with its operators, all of which must hold: {"org_id": {"eq": 7}, "price": {"gte": 5, "lt": 10}}.  Operators are
   eq (null: is null), in, gt, gte, lt, lte and icontains; of an array eq and icontains ask for an element, in for any of several.
   changes: some of created, updated, deleted and left.  columns: tell of an update only when one of these changed.
   settings: names of settings that policies of the table read; their present values go along.
   process: the subscription ends with its lease, and is read by live_read(); without, it stays until live_unsubscribe().
   Runs with the rights of the caller: policies on trunkline.live_subscription say who may subscribe to what.
   Errors: TL403, TL404, TL413, TL422, TL423, and 42501 where a policy says no. */
create or replace function trunkline.live_subscribe(relation regclass, condition jsonb default '{}', changes text[] default null, columns text[] default null,
  settings text[] default '{}', process uuid default null)
returns table (subscription bigint, role name) language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  subscription := trunkline._live_number();
  role := current_user;
  insert into trunkline.live_subscription (subscription, relation, changes, condition, columns, settings, process)
  values (live_subscribe.subscription, relation, coalesce(changes, array['created', 'updated', 'deleted', 'left']), coalesce(condition, '{}'), columns,
    coalesce((select jsonb_object_agg(s, coalesce(current_setting(s, true), '')) from unnest(settings) s where s is not null), '{}'), process);
  return next;
end $$;
comment on function trunkline.live_subscribe(regclass, jsonb, text[], text[], text[], uuid) is 'Be told of the rows of a live table that change.';
select trunkline._access('live_subscribe(regclass, jsonb, text[], text[], text[], uuid)', 'reader');
