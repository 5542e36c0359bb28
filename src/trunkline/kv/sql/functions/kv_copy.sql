/* A part of everything, in the order of keys, as JSON for kv_apply(): deleted keys too.  After the last key up to which the copy has come; up to max_keys keys and about 8 MB.
   last_namespace is NULL when there is no more.  A copy that is not whole itself tells only what it is sure of; the rest follows as changes.  Reads only.  Errors: TL410 no copy was begun, or another
   life has, TL422. */
create or replace function trunkline.kv_copy(
  instance text, origin bigint, after_namespace text default '', after_key text default '', scope text default 'all', max_keys int default 2000)
returns table (last_namespace text, last_key text, states jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  life trunkline.kv_life;
begin
  perform trunkline._kv_follower_check(instance, origin);
  if after_namespace is null or after_key is null or max_keys is null or max_keys < 1 or scope is null or scope not in ('all', 'parade') then
    raise exception using errcode = 'TL422', message = 'a copy goes on after a namespace and a key, max_keys is at least 1, scope is all or parade.';
  end if;
  life := trunkline._kv_life_present();
  with told as materialized (
    select e.namespace, e.key, case when life.whole or not trunkline._kv_doubtful(e, life) then trunkline._kv_state(e) end as state from trunkline.kv_entry e
     where (e.namespace, e.key) > (after_namespace, after_key) and (scope = 'all' or e.namespace = 'parade')
     order by e.namespace, e.key limit max_keys),
  counted as (
    select t.*, sum(coalesce(pg_column_size(t.state), 0)) over (order by t.namespace, t.key) - coalesce(pg_column_size(t.state), 0) as bytes_before from told t),
  kept as (select c.* from counted c where c.bytes_before <= 8000000)
  select (select k.namespace from kept k order by k.namespace desc, k.key desc limit 1), (select k.key from kept k order by k.namespace desc, k.key desc limit 1),
         coalesce((select jsonb_agg(k.state) from kept k where k.state is not null), '[]')
    into last_namespace, last_key, states;
  return next;
end $$;
comment on function trunkline.kv_copy(text, bigint, text, text, text, int) is 'A part of everything, for kv_apply() elsewhere.';
select trunkline._access('kv_copy(text, bigint, text, text, text, int)', 'admin');
