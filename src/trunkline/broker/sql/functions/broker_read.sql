/* Events that wait for a handler, in the order of each lane; lane NULL reads all of them.  from_position NULL begins after
   what is committed, otherwise at that delivery.  up_to is what to commit when an event is done.
   The first read registers the handler, so that nothing it has not read leaves; peek takes nothing, and shows a handler
   that is not there what it would get.  Errors: TL404, TL410 with the first delivery there is, TL422. */
create or replace function trunkline.broker_read(
  group_name text, handler text default '', lane int default null, from_position bigint default null, max_events int default 100, peek boolean default false)
returns table (in_lane int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_row(group_name);
  reader trunkline.broker_handler;
  chosen int[] := case when lane is null then array(select g from generate_series(0, present.lanes - 1) g) else array[lane] end;
begin
  if handler is null or peek is null then
    perform trunkline._raise('TL422', 'handler is a name, which may be empty, and peek is true or false; got NULL.');
  end if;
  if not peek and not exists (select from trunkline.broker_handler h where h.group_id = present.group_id and h.handler = broker_read.handler) then
    perform trunkline._broker_handler_ensure(present.group_id, handler, null, null);
  end if;
  select h.* into reader from trunkline.broker_handler h where h.group_id = present.group_id and h.handler = broker_read.handler;
  return query
    select f.* from trunkline._broker_fetch(present, reader, chosen,
             array(select coalesce(from_position - 1, trunkline._broker_position(present.group_id, handler, c.lane), greatest(present.begins_after, present.trimmed_to))
                     from unnest(chosen) with ordinality c (lane, place) order by c.place), max_events) f
     where f.event_id is not null limit greatest(max_events, 1);
end $$;
comment on function trunkline.broker_read(text, text, int, bigint, int, boolean) is 'Events that wait for a handler of a group, in order.';
select trunkline._access('broker_read(text, text, int, bigint, int, boolean)', 'reader');
