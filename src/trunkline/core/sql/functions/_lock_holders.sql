/* Who holds a lock on a table, for people: pid or prepared transaction, user, program, virtual transaction. */
create or replace function trunkline._lock_holders(relation regclass)
returns text language sql stable as $$
  select string_agg(distinct case when l.pid is null
           then format('prepared transaction "%s" (%s, transaction %s)', p.gid, p.owner, l.virtualtransaction)
           else format('pid %s (%s, %s, transaction %s)', l.pid, coalesce(a.usename, '?'),
             coalesce(nullif(a.application_name, ''), a.backend_type, '?'), l.virtualtransaction) end, ', ')
    from pg_locks l left join pg_stat_activity a on a.pid = l.pid
    -- a prepared transaction has no pid, but a lock on its own xid
    left join pg_locks x on l.pid is null and x.pid is null and x.locktype = 'transactionid'
         and x.mode = 'ExclusiveLock' and x.virtualtransaction = l.virtualtransaction
    left join pg_prepared_xacts p on p.transaction = x.transactionid
   where l.locktype = 'relation' and l.relation = $1 and l.granted and l.pid is distinct from pg_backend_pid()
     and l.database = (select d.oid from pg_database d where d.datname = current_database());
$$;
