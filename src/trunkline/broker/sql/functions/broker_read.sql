/* Events that wait for a handler, in the order of each lane; lane NULL reads all of them.  from_position NULL begins after
   what is committed, otherwise at that delivery.  up_to is what to commit when an event is done.
   The first read registers the handler, so that nothing it has not read leaves; peek takes nothing, and shows a handler
   that is not there what it would get.  When deliveries have left while the group had no handler, its first reader is refused until it
   says where to begin.  from_position may lie before what is committed, as far as that has not left.
   The server cannot send an event with more than 1 GB as text: name the other columns then; clients do so by themselves.
   Errors: TL404, TL410 with the first delivery there is, TL422. */
create or replace function trunkline.broker_read(
  group_name text, handler text default '', lane int default null, from_position bigint default null, max_events int default 100, peek boolean default false)
returns table (in_lane int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'consume');
  reader trunkline.broker_handler;
  fresh boolean;
  gone bigint := greatest(present.trimmed_to, present.left_to);
  chosen int[] := case when lane is null then array(select g from generate_series(0, present.lanes - 1) g) else array[lane] end;
  reached bigint[];
  further record;
begin
  if handler is null or peek is null then
    raise exception using errcode = 'TL422', message = 'handler is a name, which may be empty, and peek is true or false; got NULL.';
  elsif from_position < 1 then
    raise exception using errcode = 'TL422', message = format('deliveries begin at 1, got %s.', from_position);
  end if;
  select h.* into reader from trunkline.broker_handler h where h.group_id = present.group_id and h.handler = broker_read.handler;
  fresh := not found;
  if from_position <= present.trimmed_to or from_position <= gone
     and (fresh or exists (select from unnest(chosen) c (lane) where trunkline._broker_position(present.group_id, handler, c.lane) >= from_position)) then
    perform trunkline._broker_refuse_left(present, from_position - 1, format('Begin with the first there is: from_position => %s.', gone + 1));
  elsif fresh and from_position is null and present.untold_from is not null then
    perform trunkline._broker_refuse_left(present, present.untold_from - 1, format('Begin with the first there is: from_position => %s.', gone + 1));
  elsif fresh and not peek then
    if from_position is not null then  -- whoever says where to begin need not be told
      update trunkline.broker_group g set untold_from = null where g.group_id = present.group_id and g.untold_from is not null;
    end if;
    perform trunkline._broker_handler_ensure(present.group_id, handler, null, null);
    select h.* into reader from trunkline.broker_handler h where h.group_id = present.group_id and h.handler = broker_read.handler;
  end if;
  reached := array(select coalesce(from_position - 1, trunkline._broker_position(present.group_id, handler, c.lane), greatest(present.begins_after, present.trimmed_to))
                     from unnest(chosen) with ordinality c (lane, place) order by c.place);
  loop
    return query
      select f.lane, f.up_to, f.event_position, f.event_id, f.topic, f.key, f.payload, f.metadata, f.at, f.subscriptions, f.blocked
        from (select r.*, bool_or(r.event_id is null) over (partition by r.lane order by r.up_to) as beyond
                from trunkline._broker_fetch(present, reader, chosen, reached, max_events) r) f
       where not f.beyond order by f.lane, f.up_to limit greatest(max_events, 1);
    exit when found;
    -- nothing was for the handler as far as was looked: look further, unless that has left.  This statement sees more than the
    -- one above: events that came in between are read in the next round, not passed over
    select array_agg(coalesce(m.number, r.number) order by r.place) as reached, min(array[m.left_one, r.lane]) filter (where m.left_one is not null) as gone,
           bool_or(m.number > r.number or m.came) as moved into further
      from unnest(chosen, reached) with ordinality r (lane, number, place)
      left join (select f.lane, max(f.up_to) filter (where not f.beyond) as number, bool_or(f.beyond) as came, max(f.up_to) filter (where f.event_position is not null and not f.beyond) as left_one
                   from (select e.*, bool_or(e.event_id is not null) over (partition by e.lane order by e.up_to) as beyond
                           from trunkline._broker_fetch(present, reader, chosen, reached, max_events) e) f
                  group by 1) m using (lane);
    if further.gone is not null then
      perform trunkline._raise('TL410', format('events of lane %s of group "%s" have left up to delivery %s: it was behind for longer than broker.hold, or held more than broker.hold_bytes.', further.gone[2], group_name, further.gone[1]),
        case when fresh then format('Begin after it: from_position => %s, lane => %s.', further.gone[1] + 1, further.gone[2])
             else format('Go on after it: broker_seek() with up_to => %s, lane => %s.', further.gone[1], further.gone[2]) end,
        jsonb_build_object('group_name', group_name, 'lane', further.gone[2], 'first', further.gone[1] + 1));
    end if;
    exit when further.moved is not true;
    reached := further.reached;
  end loop;
end $$;
comment on function trunkline.broker_read(text, text, int, bigint, int, boolean) is 'Events that wait for a handler of a group, in order.';
select trunkline._access('broker_read(text, text, int, bigint, int, boolean)', 'reader');
