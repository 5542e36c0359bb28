/* Begin a life.  Only the first of all is whole from the start.  The origin is a random number: two lives shall not share one,
   wherever they are.  On a server that went back (another incarnation of the same server and timeline) the life begins where changes were numbered before the
   present start: peers read what was written since then, and it is not in doubt.
   Locks: the table of lives, as one begins. */
create or replace function trunkline._kv_life_begin()
returns trunkline.kv_life language plpgsql as $$
declare
  here int := trunkline.incarnation();
  present trunkline.kv_life;
  before trunkline.kv_life;
begin
  perform trunkline._lock_briefly();
  select l.* into before from trunkline.kv_life l order by l.life desc limit 1;
  lock table trunkline.kv_life in share row exclusive mode;
  select l.* into present from trunkline.kv_life l
   where l.incarnation = here and l.life > coalesce(before.life, 0) order by l.life desc limit 1;  -- another was quicker
  if found then
    return present;
  end if;
  insert into trunkline.kv_life (origin, incarnation, xid_space, snapshot, began_after, whole, started_at, start_head, start_snapshot, proved_at)
  values (('x' || translate(left(gen_random_uuid()::text, 18), '-', ''))::bit(64)::bigint & 9223372036854775807, here, trunkline._xid_space(),
          pg_current_snapshot(), trunkline.kv_head(), before.life is null,
          pg_postmaster_start_time(), trunkline.kv_head(), pg_current_snapshot(), pg_postmaster_start_time())
  returning * into present;
  if before.incarnation <> here and exists (
      select from trunkline.incarnation i join trunkline.incarnation j
        on (j.system_identifier, j.timeline, j.database, j.schema) = (i.system_identifier, i.timeline, i.database, i.schema)
       where i.incarnation = before.incarnation and j.incarnation = here) then
    update trunkline.kv_life l set snapshot = s.snapshot, began_after = s.head, start_snapshot = s.snapshot, start_head = s.head
      from trunkline._kv_start_of(before) s where l.life = present.life returning l.* into present;
  end if;
  return present;
end $$;
