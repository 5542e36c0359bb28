/* A duty of maintain(): lanes for which nothing came move up to the head, so that they do not hold back the ring.
   Only lanes that lie far behind: an idle installation writes nothing. */
create or replace function trunkline.tube_cursors_advance()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  head bigint := trunkline.tube_head();
  behind record;
  first_one bigint;
begin
  for behind in
    select t as tube, l.lane, p.priority, k.cursor_id, (trunkline._cursor_latest(k.cursor_id)).up_to
      from trunkline.tube t cross join lateral generate_series(0, t.lanes - 1) l (lane) cross join generate_series(0, 1) p (priority)
      join trunkline.cursor_key k on k.resource = trunkline._tube_resource(t, l.lane, p.priority)
  loop
    continue when behind.up_to >= head - 1000;
    select w.up_to into first_one from trunkline._tube_positions(behind.tube, behind.lane, behind.priority, behind.up_to + 1, head) w limit 1;
    continue when first_one <= behind.up_to + 1000;
    perform 1 from trunkline.cursor_key k where k.cursor_id = behind.cursor_id for no key update skip locked;
    if found and (trunkline._cursor_latest(behind.cursor_id)).up_to = behind.up_to then
      perform trunkline._cursor_write(behind.cursor_id, coalesce(first_one - 1, head));
    end if;
  end loop;
  return false;
end $$;
comment on function trunkline.tube_cursors_advance() is 'Lanes for which nothing came move up, so that they do not hold back the ring; a duty of maintain().';
select trunkline._access('tube_cursors_advance()', 'admin');
insert into trunkline.duty (duty, rank) values ('tube_cursors_advance', 60) on conflict do nothing;
