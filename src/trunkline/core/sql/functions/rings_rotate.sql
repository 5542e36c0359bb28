/* A duty of maintain(): every ring moves on when its time has come, and slots that may leave are emptied.
   Waits for nobody longer than maintain.lock_timeout.  Returns false: one round is enough. */
create or replace function trunkline.rings_rotate()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text;
begin
  perform trunkline._cursor_carry();
  for name in select r.ring from trunkline.ring r order by r.ring loop
    perform trunkline._ring_rotate(name, clock_timestamp());
  end loop;
  return false;
end $$;
comment on function trunkline.rings_rotate() is 'Every ring moves on when its time has come; slots that may leave are emptied.';
select trunkline._access('rings_rotate()', 'admin');
insert into trunkline.duty (duty, rank) values ('rings_rotate', 90) on conflict do nothing;
