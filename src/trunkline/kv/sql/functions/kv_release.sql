/* A duty of maintain(), which pullers call too: apply what waits, when its time has come or no transaction holds the key any more; up to
   1000 keys of each peer.  What waits since a life before is left until the copy is whole.  Returns whether there is more that can be applied. */
create or replace function trunkline.kv_release()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  latest bigint := trunkline._kv_now() + trunkline._kv_skew();
  since timestamptz := '-infinity';
  more boolean := false;
  peer bigint;
  due jsonb;
  waiting jsonb;
begin
  if not exists (select from trunkline.kv_held h where h.stamp <= latest) then
    return false;
  end if;
  select l.began_at into since from trunkline._kv_life() l where not l.whole;
  for peer in select distinct h.via from trunkline.kv_held h where h.stamp <= latest and h.held_at >= coalesce(since, '-infinity') loop
    select jsonb_agg(r.state) into due from (  -- in any order: keys that stay locked keep back no others
      select h.state from trunkline.kv_held h where h.via = peer and h.stamp <= latest and h.held_at >= coalesce(since, '-infinity')
       order by random() limit 1000 for update skip locked) r;
    continue when due is null;
    select m.waiting into waiting from trunkline._kv_merge_free(due, peer, false) m;
    with named as (
      select s ->> 'namespace' as namespace, s ->> 'key' as key, not exists (
               select from jsonb_array_elements(waiting) w where w ->> 'key' = s ->> 'key' and w ->> 'namespace' = s ->> 'namespace') as is_free
        from jsonb_array_elements(due) s),
    applied as (
      delete from trunkline.kv_held h using named n where n.is_free and h.namespace = n.namespace and h.key = n.key and h.via = peer)
    update trunkline.kv_held h set reason = 'lock' from named n
     where not n.is_free and h.namespace = n.namespace and h.key = n.key and h.via = peer and h.reason <> 'lock';
    more := more or jsonb_array_length(due) = 1000 and jsonb_array_length(waiting) < 1000;
  end loop;
  return more;
end $$;
comment on function trunkline.kv_release() is 'Apply what waits for its time or for a lock.';
select trunkline._access('kv_release()', 'admin');
insert into trunkline.duty (duty, rank) values ('kv_release', 81) on conflict do nothing;
