/* Move a handler: to the first delivery made at or after a time, to the first one of an event at or after a position, or to
   just after a delivery (0: the first that is still there).  Deliveries that have left before a time or position are passed
   over.  Whoever works on it is fenced and begins anew there.  lane NULL moves all lanes.
   Returns the lanes and where they stand.  Errors: TL404, TL410 the deliveries have left, TL422. */
create or replace function trunkline.broker_seek(group_name text, handler text default '', at_time timestamptz default null, up_to bigint default null, lane int default null, at_position bigint default null)
returns table (in_lane int, after bigint) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'manage');
  last_one bigint := trunkline._broker_delivered();
  held trunkline.cursor;
begin
  perform trunkline._broker_handler_row(present, handler);
  if num_nonnulls(at_time, up_to, at_position) <> 1 then
    raise exception using errcode = 'TL422', message = 'say where to: at_time, at_position or up_to, one of them.';
  elsif at_position < 1 or at_position > trunkline.broker_head() then
    raise exception using errcode = 'TL422', message = format('positions go from 1 to %s, got %s.', trunkline.broker_head(), at_position);
  elsif up_to < 0 or up_to > last_one then
    raise exception using errcode = 'TL422', message = format('deliveries go up to %s, got %s.', last_one, up_to);
  elsif up_to > 0 and up_to < greatest(present.trimmed_to, present.left_to) then
    perform trunkline._broker_refuse_left(present, up_to, format('Go on from the first there is: up_to => %s.', greatest(present.trimmed_to, present.left_to)));
  elsif lane not between 0 and present.lanes - 1 then
    raise exception using errcode = 'TL422', message = format('group "%s" has lanes 0 to %s, got %s.', group_name, present.lanes - 1, lane);
  end if;
  for in_lane in select g from generate_series(0, present.lanes - 1) g where lane is null or g = lane loop
    -- in the order of broker_commit(), or the two could wait for each other
    held := trunkline._cursor_hold(trunkline._broker_resource(present.group_id, handler, in_lane));
    -- a hand-over to nobody: waits for acknowledgements under way, refuses those to come
    update trunkline.owner o set epoch = o.epoch + 1, process = null, since = clock_timestamp() where o.resource = trunkline._broker_resource(present.group_id, handler, in_lane);
    after := coalesce(case when up_to is not null then greatest(up_to, present.trimmed_to) end,
      (select d.first - 1 from trunkline.delivery d where d.group_id = present.group_id and d.lane = in_lane and d.at >= at_time order by d.first limit 1),
      (select d.first - 1 + width_bucket(at_position - 1, d.positions) from trunkline.delivery d
        where d.group_id = present.group_id and d.lane = in_lane and d.positions[d.n] >= at_position order by d.first limit 1), last_one);
    perform trunkline._cursor_move(held, after);
    return next;
  end loop;
  perform trunkline._broker_handler_row(present, handler);  -- it may have been deleted while we waited
  perform pg_notify('trunkline', format('broker:group:%s:', present.group_id));
end $$;
comment on function trunkline.broker_seek(text, text, timestamptz, bigint, int, bigint) is 'Move a handler to a time, the position of an event, or a delivery.';
select trunkline._access('broker_seek(text, text, timestamptz, bigint, int, bigint)', 'writer');
