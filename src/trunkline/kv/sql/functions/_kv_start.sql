/* The present life, with the present start of the server noted.  Called before anything is numbered.  A database without peers has nothing to be
   compared with: its start is proved. */
create or replace function trunkline._kv_start()
returns trunkline.kv_life language plpgsql as $$
declare
  life trunkline.kv_life := trunkline._kv_life();
begin
  if life.started_at is distinct from pg_postmaster_start_time() then
    update trunkline.kv_life l
       set started_at = pg_postmaster_start_time(), start_head = s.head, start_snapshot = s.snapshot,
           proved_at = case when exists (select from trunkline.kv_local_replication_topology() t where t.scope = 'all') then l.proved_at else pg_postmaster_start_time() end
      from (select s.* from trunkline._kv_life() m, trunkline._kv_start_of(m) s) s
     where l.life = life.life and l.started_at is distinct from pg_postmaster_start_time();
    select l.* into life from trunkline.kv_life l where l.life = life.life;
  end if;
  return life;
end $$;
