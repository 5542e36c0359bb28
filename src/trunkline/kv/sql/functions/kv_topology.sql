/* All instances of the parade; here tells which of them this database is.  Who is no admin is told where they are, not as whom others log
   in there. */
create or replace function trunkline.kv_topology()
returns table (zone text, shard text, here boolean, dsn text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select i.zone, i.shard, h.one is not null, case when trunkline._administers() then i.dsn else trunkline._kv_place(i.dsn) end
    from trunkline._kv_instances() i left join trunkline.kv_here h on h.zone = i.zone and h.shard = i.shard
   order by i.shard, i.zone;
$$;
comment on function trunkline.kv_topology() is 'All instances of the parade.';
select trunkline._access('kv_topology()', 'reader');
