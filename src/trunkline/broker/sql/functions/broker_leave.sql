/* Give lanes of a handler back; without a list, all, and leave it. */
create or replace function trunkline.broker_leave(group_name text, handler text, process uuid, member text default '', lanes int[] default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'consume');
begin
  perform trunkline._party_leave(format('broker:%s:%s', present.group_id, handler),
    array(select trunkline._broker_resource(present.group_id, handler, g) from generate_series(0, present.lanes - 1) g where broker_leave.lanes is null or g = any (broker_leave.lanes)),
    process, member, lanes is null);
end $$;
comment on function trunkline.broker_leave(text, text, uuid, text, int[]) is 'Give lanes of a handler back, or leave it.';
select trunkline._access('broker_leave(text, text, uuid, text, int[])', 'reader');
