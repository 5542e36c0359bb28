/* Who holds a lock on a table, for people: pid, user, age of the transaction. */
create or replace function trunkline._lock_holders(relation regclass)
returns text language sql stable as $$
  select string_agg(distinct format('pid %s (%s, %s)', l.pid, coalesce(a.usename, '?'),
           coalesce(nullif(a.application_name, ''), a.backend_type, '?')), ', ')
    from pg_locks l left join pg_stat_activity a on a.pid = l.pid
   where l.locktype = 'relation' and l.relation = $1 and l.granted and l.pid <> pg_backend_pid()
     and l.database = (select d.oid from pg_database d where d.datname = current_database());
$$;
