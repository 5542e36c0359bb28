/* Say that everything of a lane up to a delivery is done.  In the transaction of the effect, the effect is exactly once.
   Never goes back: broker_seek() does.  The epoch is checked as the last statement and holds until commit: TL423 when
   another process took over.  Errors: TL404, TL422 a delivery that does not exist yet, TL423. */
create or replace function trunkline.broker_commit(group_name text, handler text, lane int, epoch bigint, up_to bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_row(group_name);
  name text := trunkline._broker_resource(present.group_id, handler, lane);
  number bigint;
begin
  select k.cursor_id into number from trunkline.cursor_key k where k.resource = name;
  if not found then
    perform trunkline._broker_handler_row(present, handler);
    perform trunkline._raise('TL422', format('group "%s" has lanes 0 to %s, got %s.', group_name, present.lanes - 1, coalesce(lane::text, 'NULL')));
  elsif up_to is null or up_to > trunkline._broker_delivered() then
    perform trunkline._raise('TL422', format('delivery %s does not exist yet.', coalesce(up_to::text, 'NULL')));
  end if;
  perform trunkline._cursor_lock(number);
  if up_to > (trunkline._cursor_latest(number)).up_to then
    perform trunkline._cursor_write(number, up_to);
  end if;
  perform trunkline._owner_check(name, epoch);
end $$;
comment on function trunkline.broker_commit(text, text, int, bigint, bigint) is 'Say that everything of a lane up to a delivery is done.';
select trunkline._access('broker_commit(text, text, int, bigint, bigint)', 'reader');
