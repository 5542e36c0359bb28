/* A duty of maintain(): every ring moves on when its time has come, and a slot that nobody needs is emptied.
   One lock in one transaction, waited for no longer than maintain.lock_timeout.  Returns whether there is more. */
create or replace function trunkline.rings_rotate()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text;
begin
  -- a new life is noted soon, in a short transaction
  perform trunkline._incarnation_row();
  -- only when half of the slots wait: what does not move is then copied rarely, and in an idle installation never
  if trunkline._ring_half_left('cursor') and trunkline._cursor_carry() > 0 or trunkline._ring_half_left('tick') and trunkline._tick_carry() > 0 then
    return true;
  end if;
  for name in select r.ring from trunkline.ring r order by r.ring loop
    if trunkline._ring_clear(name, clock_timestamp()) then
      return true;
    end if;
  end loop;
  for name in select r.ring from trunkline.ring r order by r.ring loop
    perform trunkline._ring_rotate(name, clock_timestamp());
  end loop;
  return false;
end $$;
comment on function trunkline.rings_rotate() is 'Every ring moves on when its time has come; slots that nobody needs are emptied.';
select trunkline._access('rings_rotate()', 'admin');
insert into trunkline.duty (duty, rank) values ('rings_rotate', 90) on conflict do nothing;
