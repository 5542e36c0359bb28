/* A duty of maintain(): forget keys that have been dead for kv.dead_keep, when every peer has confirmed what this instance knows of them and was itself heard to the end since; a thousand at a time.
   Peers that were not heard of for kv.peer_patience are not waited for: they begin with a copy.  But not before that was seen for ten minutes: it may be this server that was away, or its clock
   that has jumped.  Nothing is forgotten while this clock is ahead of most others.  Returns whether there is more. */
create or replace function trunkline.kv_forget()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  patient timestamptz := clock_timestamp() - trunkline._setting('kv.peer_patience')::interval;
  until timestamptz := clock_timestamp() - trunkline._setting('kv.dead_keep')::interval;
  life trunkline.kv_life;
  confirmed bigint;
  stale boolean;
  seen pg_snapshot;
  gone record;
begin
  if not exists (select from trunkline.kv_entry e where e.dead_at <= until and e.namespace <> 'parade') then
    return false;
  end if;
  life := trunkline._kv_life();
  if not life.whole or trunkline._kv_ahead() is not null then
    return false;
  end if;
  select least(until, min(coalesce(k.level_at, '-infinity')) filter (where k.known)), min(coalesce(k.confirmed, -1)) filter (where k.known), bool_or(not k.known) into until, confirmed, stale
    from (select p.level_at, trunkline._kv_confirmed(t.instance) as confirmed, greatest(p.heard_at, p.asked_at, to_timestamp(i.stamp / 1000000.0)) > patient as known
            from trunkline.kv_local_replication_topology() t join trunkline._kv_instances() i on i.instance = t.instance
            left join trunkline.kv_peer p on p.instance = t.instance where t.scope = 'all') k;
  -- also for those who pull before this database knows which instance it is
  confirmed := least(confirmed, (select min(coalesce(trunkline._kv_confirmed(f.instance), -1)) from trunkline._kv_followers() f));
  if stale and not trunkline._kv_stale_for(interval '10 minutes') then
    return false;
  end if;
  if confirmed is not null then
    select t.snapshot into seen from trunkline.tick t
     where t.sequence = 'kv_change' and t.first_position + t.n - 1 <= confirmed order by t.first_position desc limit 1;
    if not found then
      return false;
    end if;
  end if;
  with due as (
    select e.namespace, e.key from trunkline.kv_entry e
     where e.dead_at <= until and e.namespace <> 'parade'
       and not exists (select from trunkline.kv_held h where h.namespace = e.namespace and h.key = e.key)  -- it may be older
       and (confirmed is null or case when e.xid_space = life.xid_space then pg_visible_in_snapshot(e.xid, seen) else confirmed >= life.began_after end)
     limit 1000 for update skip locked),
  removed as (
    delete from trunkline.kv_entry e using due d where e.namespace = d.namespace and e.key = d.key returning e.namespace, e.key, greatest(e.stamp, e.counted_stamp) as stamp),
  counters as (
    delete from trunkline.kv_counter c using removed r where c.namespace = r.namespace and c.key = r.key)
  select count(*) as n, max(r.stamp) as stamp into gone from removed r;
  update trunkline.kv_clock c set floor = gone.stamp where c.floor < gone.stamp;
  return gone.n = 1000;
end $$;
comment on function trunkline.kv_forget() is 'Forget keys that have been dead for long, when every peer has confirmed them.';
select trunkline._access('kv_forget()', 'admin');
insert into trunkline.duty (duty, rank) values ('kv_forget', 82) on conflict do nothing;
