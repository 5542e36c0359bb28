/* A duty of maintain(): end what was counted for keys that have expired, so that it cannot count again; a thousand keys at a time.  Not before
   kv.dead_keep has passed: what another zone did in time to keep them alive may still be on its way.  Not while this clock is ahead of most others.
   Reads never show an expired key, whether this ran or not.  Returns whether there is more. */
create or replace function trunkline.kv_expire()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  until timestamptz := clock_timestamp() - greatest(trunkline._setting('kv.dead_keep')::interval, trunkline._setting('kv.max_skew')::interval);
  ended record;
  n int := 0;
begin
  if trunkline._kv_ahead() is not null then
    return false;
  end if;
  for ended in
    with due as (
      select e.namespace, e.key from trunkline.kv_entry e
       where e.dead_at <= until and (  -- no EXISTS: it may begin with all counters
         select true from trunkline.kv_counter c where c.namespace = e.namespace and c.key = e.key and c.version > c.gone_version limit 1)
       limit 1000 for no key update skip locked),
    gone as (
      update trunkline.kv_counter c set gone_version = c.version, gone_sum = c.sum from due d
       where c.namespace = d.namespace and c.key = d.key and c.version > c.gone_version returning c.namespace, c.key)
    select g.namespace, array_agg(distinct g.key) as keys from gone g group by g.namespace
  loop
    update trunkline.kv_entry e set xid_space = trunkline._xid_space(), xid = pg_current_xact_id() where e.namespace = ended.namespace and e.key = any (ended.keys);
    perform trunkline._kv_note(ended.namespace, ended.keys, (trunkline._kv_life()).origin);
    n := n + cardinality(ended.keys);
  end loop;
  return n >= 1000;
end $$;
comment on function trunkline.kv_expire() is 'End what was counted for keys that have expired.';
select trunkline._access('kv_expire()', 'admin');
insert into trunkline.duty (duty, rank) values ('kv_expire', 80) on conflict do nothing;
