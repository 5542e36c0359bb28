/* Which transactions hold the keys that wait here for one peer (via is its origin), for people: pid, role, program, state, age.  A key that
   an open transaction makes is not visible, so that all transactions are named then that write keys and are open for a second. */
create or replace function trunkline._kv_lock_holders(via bigint)
returns text language sql stable as $$
  with waits as (
    select e.xmax as holder from trunkline.kv_held h left join trunkline.kv_entry e on e.namespace = h.namespace and e.key = h.key
     where h.reason = 'lock' and h.via = _kv_lock_holders.via order by h.held_at limit 100),
  locks as materialized (select l.* from pg_locks l where l.granted and l.pid is distinct from pg_backend_pid()),
  known as (
    select distinct l.pid, l.virtualtransaction, l.transactionid from locks l
     where l.locktype = 'transactionid' and l.transactionid in (select w.holder from waits w)),
  holding as (
    select k.pid, k.virtualtransaction from known k
    union
    select l.pid, l.virtualtransaction from locks l left join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'relation' and l.relation = 'trunkline.kv_entry'::regclass and l.mode = 'RowExclusiveLock'
       and l.database = (select d.oid from pg_database d where d.datname = current_database())
       and coalesce(a.xact_start, '-infinity') < clock_timestamp() - interval '1 second'
       and exists (select from waits w where w.holder is null or w.holder not in (select k.transactionid from known k)))
  select string_agg(case when h.pid is null then coalesce((
             select format('prepared transaction "%s" (%s, open for %s)', p.gid, p.owner, date_trunc('second', clock_timestamp() - p.prepared))
               from locks x join pg_prepared_xacts p on p.transaction = x.transactionid
              where x.pid is null and x.locktype = 'transactionid' and x.virtualtransaction = h.virtualtransaction limit 1), 'a prepared transaction')
           else format('pid %s (%s)', h.pid, concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state,
                  'open for ' || date_trunc('second', clock_timestamp() - a.xact_start))) end, ', ' order by h.pid)
    from holding h left join pg_stat_activity a on a.pid = h.pid;
$$;
