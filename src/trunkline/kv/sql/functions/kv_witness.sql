/* Compare this copy with what another instance knows of it (word, as kv_hello() and kv_pulled() of that instance return it).  A copy that lacks what the other
   has read of it, or does not know what it confirmed to the other, went back: its files were replaced by older ones.  It begins another incarnation and another
   life, in which what was written since the start of the server is kept.  Returns whether it did. */
create or replace function trunkline.kv_witness(instance text, word jsonb)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  life trunkline.kv_life := trunkline._kv_start();
  this_start timestamptz := pg_postmaster_start_time();
  proved boolean := coalesce((select p.proved_at = this_start from trunkline.kv_peer p where p.instance = kv_witness.instance), false);
  went_back boolean;
begin
  if jsonb_typeof(word) is distinct from 'object' then
    raise exception using errcode = 'TL422', message = 'the word of an instance is a JSON object, as its kv_hello() returns it.';
  end if;
  went_back := coalesce((word ->> 'origin')::bigint = life.origin and (word ->> 'seen')::bigint > case when proved then trunkline.kv_head() else life.start_head end, false)
    or coalesce((word ->> 'asked_origin')::bigint = life.origin
         and (word ->> 'confirmed')::bigint > coalesce((trunkline._kv_reached(trunkline._kv_from(instance))).up_to, 0), false);
  if went_back then
    raise warning 'this server went back to an earlier state: instance "%" knows more of it than it does itself', instance;
    perform trunkline._kv_went_back(life);
  end if;
  if not proved then
    insert into trunkline.kv_peer as p (instance, proved_at) values (kv_witness.instance, this_start)
    on conflict on constraint kv_peer_pkey do update set proved_at = excluded.proved_at;
  end if;
  if not went_back and life.proved_at is distinct from this_start and not exists (
      select from trunkline.kv_local_replication_topology() t left join trunkline.kv_peer p on p.instance = t.instance
       where t.scope = 'all' and p.proved_at is distinct from this_start) then
    update trunkline.kv_life l set proved_at = this_start where l.life = life.life;
  end if;
  return went_back;
end $$;
comment on function trunkline.kv_witness(text, jsonb) is 'Compare this copy with what another instance knows of it.';
select trunkline._access('kv_witness(text, jsonb)', 'admin');
