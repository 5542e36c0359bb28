/* Take hold of a cursor, made on first use: its static row is locked, so that whoever moves it next waits, and only then is
   read where it stands.  seq, up_to and state are NULL when it never moved.
   A REPEATABLE READ snapshot from before a rotation may miss rows that were carried and emptied since: it is
   refused with 40001, because the row of the ring has changed.
   The plan is kept by the session: it must not rest on statistics of a slot that was empty. */
create or replace function trunkline._cursor_hold(resource text)
returns trunkline.cursor language plpgsql set enable_seqscan = off as $$
declare
  number bigint;
  held trunkline.cursor;
begin
  if now() <> statement_timestamp() then perform trunkline._lock_briefly(); end if;
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    perform 1 from trunkline.ring r where r.ring = 'cursor' for share;
  end if;
  loop
    select k.cursor_id into number from trunkline.cursor_key k where k.resource = _cursor_hold.resource for no key update;
    exit when found;
    insert into trunkline.cursor_key (resource) values (_cursor_hold.resource)
    on conflict on constraint cursor_key_resource do nothing;
  end loop;
  select c.* into held from trunkline.cursor c where c.cursor_id = number order by c.seq desc limit 1;
  held.cursor_id := number;
  return held;
end $$;
