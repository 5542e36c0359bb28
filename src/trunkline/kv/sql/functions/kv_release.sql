/* A duty of maintain(): apply what was held back, when time has come so far.  Returns whether there is more. */
create or replace function trunkline.kv_release()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  due record;
begin
  with ready as (
    delete from trunkline.kv_held h where (h.namespace, h.key, h.via) in (
      select f.namespace, f.key, f.via from trunkline.kv_held f
       where f.stamp <= trunkline._kv_clock() + trunkline._kv_skew() and f.via = (
         select min(v.via) from trunkline.kv_held v where v.stamp <= trunkline._kv_clock() + trunkline._kv_skew())
       order by f.namespace, f.key limit 1000 for update)
    returning h.*)
  select jsonb_agg(r.state) as states, count(*) as n, min(r.via) as via into due from ready r;
  if due.n > 0 then
    perform trunkline._kv_merge(due.states, due.via);
  end if;
  return due.n = 1000;
end $$;
comment on function trunkline.kv_release() is 'Apply what was held back because its stamp was in the future.';
select trunkline._access('kv_release()', 'admin');
insert into trunkline.duty (duty, rank) values ('kv_release', 81) on conflict do nothing;
