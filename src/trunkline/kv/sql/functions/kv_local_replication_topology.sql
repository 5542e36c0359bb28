/* From whom this instance pulls: all keys from its shard in other zones; from other shards of its zone what belongs to the parade.  No row
   when the database stands alone. */
create or replace function trunkline.kv_local_replication_topology()
returns table (instance text, zone text, shard text, scope text, dsn text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select i.instance, i.zone, i.shard, case when i.shard = h.shard then 'all' else 'parade' end, case when trunkline._administers() then i.dsn end
    from trunkline._kv_instances() i join trunkline.kv_here h on (h.zone = i.zone) <> (h.shard = i.shard)
   order by i.instance;
$$;
comment on function trunkline.kv_local_replication_topology() is 'From whom this instance pulls what.';
select trunkline._access('kv_local_replication_topology()', 'reader');
