/* Say that everything of a lane up to these positions is done; NULL leaves one as it is.  The epoch is checked as the
   last statement and holds until commit: TL423 when another process took over or the lanes changed.  A parked key that was touched after it was
   parked, and is done now, is parked no longer. */
create or replace function trunkline.tube_ack(tube text, lane int, epoch bigint, live_up_to bigint default null, backfill_up_to bigint default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  name text;
  latest trunkline.cursor;
  done record;
begin
  perform trunkline._tube_may(present.tube, 'consume');
  for done in select * from (values (0, live_up_to), (1, backfill_up_to)) v (priority, up_to) where v.up_to is not null loop
    if done.up_to > trunkline.tube_head() then
      perform trunkline._raise('TL422', format('position %s is not numbered yet.', done.up_to));
    end if;
    name := trunkline._tube_resource(present, lane, done.priority);
    if exists (select from trunkline.cursor_key k where k.resource = name) then
      latest := trunkline._cursor_hold(name);
      if done.up_to > latest.up_to then
        perform trunkline._cursor_move(latest, done.up_to);
        if exists (select from trunkline.tube_parked p where p.tube_id = present.tube_id) then
          perform trunkline._tube_parked_done(present, lane, done.priority, latest.up_to + 1, done.up_to);
        end if;
      end if;
    end if;
  end loop;
  perform trunkline._owner_check(trunkline._tube_resource(present, lane), epoch);
end $$;
comment on function trunkline.tube_ack(text, int, bigint, bigint, bigint) is 'Say that everything of a lane up to these positions is done.';
select trunkline._access('tube_ack(text, int, bigint, bigint, bigint)', 'reader');
