/* Sessions that hold something back: transactions open for long, prepared ones, and who blocks whom.
   Their queries are told to admins, and to who may act for those that ask them. */
create or replace function trunkline.doctor_blockers(older_than interval default '1 minute')
returns table (kind text, pid int, name text, age interval, blocks int[], query text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select case when a.state like 'idle in transaction%' then 'idle in transaction' else 'open transaction' end,
         a.pid, concat_ws(' ', a.usename, nullif(a.application_name, '')), clock_timestamp() - a.xact_start,
         array(select b.pid from pg_stat_activity b where a.pid = any (pg_blocking_pids(b.pid))),
         case when trunkline._administers() or pg_has_role(trunkline._caller(), a.usesysid, 'member') then left(a.query, 200) end
    from pg_stat_activity a
   where a.datname = current_database() and a.xact_start is not null and a.pid <> pg_backend_pid()
     and (clock_timestamp() - a.xact_start > older_than
          or exists (select from pg_stat_activity b where a.pid = any (pg_blocking_pids(b.pid))))
  union all
  select 'prepared transaction', null, p.gid, clock_timestamp() - p.prepared, '{}', null
    from pg_prepared_xacts p where p.database = current_database() and clock_timestamp() - p.prepared > older_than
  order by 4 desc;
$$;
comment on function trunkline.doctor_blockers(interval) is 'Sessions and prepared transactions that hold something back.';
select trunkline._access('doctor_blockers(interval)', 'reader');
