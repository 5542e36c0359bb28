/* broker_commit() that also says where the batches under way end, written before they are handled: whoever takes the lane over
   handles the same batches, whatever has come since.  cuts is an array of them in order, each an array of its last delivery and of those
   before it that are not part of it; NULL when nothing is under way.  They stand with the position and go with the next one.
   Errors: TL404, TL422, TL423. */
create or replace function trunkline._broker_cut(group_name text, handler text, lane int, epoch bigint, up_to bigint, cuts jsonb)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'consume');
  name text := trunkline._broker_resource(present.group_id, handler, lane);
  latest trunkline.cursor;
begin
  if not exists (select from trunkline.cursor_key k where k.resource = name) then
    perform trunkline._broker_handler_row(present, handler);
    raise exception using errcode = 'TL422', message = format('group "%s" has lanes 0 to %s, got %s.', group_name, present.lanes - 1, coalesce(lane::text, 'NULL'));
  elsif up_to is null or up_to > trunkline._broker_delivered() then
    raise exception using errcode = 'TL422', message = format('delivery %s does not exist yet.', coalesce(up_to::text, 'NULL'));
  end if;
  latest := trunkline._cursor_hold(name);
  if up_to > latest.up_to or (up_to = latest.up_to and cuts <> coalesce(latest.state -> 'cuts', '[]')) then
    perform trunkline._cursor_move(latest, up_to, case when cuts is not null then jsonb_build_object('cuts', cuts) end);
  end if;
  perform trunkline._owner_check(name, epoch);
end $$;
select trunkline._access('_broker_cut(text, text, int, bigint, bigint, jsonb)', 'reader');
