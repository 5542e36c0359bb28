/* The catalogue of pg_global_kv over the parade of trunkline.  A host is a zone, and a shard is the database of
   its name on each host.  Hosts and shards that are no instance yet are keys of the namespace kv_config. */
create or replace function kv_config._names(prefix text)
returns table (name text, port int) language sql stable set search_path = pg_catalog, pg_temp as $$
  select substr(s.key, length($1) + 1), (s.value ->> 'port')::int
    from trunkline.kv_scan('kv_config', $1, max_keys => 100000) s;
$$;

create or replace function kv_config._name_write()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform trunkline.kv_delete('kv_config', tg_argv[0] || (to_jsonb(old) ->> tg_argv[1]));
    return old;
  end if;
  perform trunkline.kv_put('kv_config', tg_argv[0] || (to_jsonb(new) ->> tg_argv[1]),
    jsonb_build_object('port', coalesce(to_jsonb(new) -> 'port', 'null')));
  return new;
end $$;

create or replace view kv_config.catalog_instance with (security_invoker = true) as
  select n.name as hostname, n.port from kv_config._names('host/') n;
alter view kv_config.catalog_instance alter column port set default 5432;
comment on view kv_config.catalog_instance is 'Hosts of the parade.';
create or replace trigger name_write instead of insert or delete on kv_config.catalog_instance
  for each row execute function kv_config._name_write('host/', 'hostname');

create or replace view kv_config.shard_name with (security_invoker = true) as
  select n.name from kv_config._names('shard/') n;
comment on view kv_config.shard_name is 'Shards: databases of these names on each host.';
create or replace trigger name_write instead of insert or delete on kv_config.shard_name
  for each row execute function kv_config._name_write('shard/', 'name');

create or replace function kv_config._instances()
returns table (hostname text, port int, shard_name text, here boolean)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select t.zone, substring(t.dsn from 'port=([0-9]+)')::int, t.shard, t.here from trunkline.kv_topology() t;
$$;
create or replace view kv_config.shard_instance with (security_invoker = true) as
  select i.hostname, i.port, i.shard_name from kv_config._instances() i;
comment on view kv_config.shard_instance is
  'Instances: trunkline.kv_topology(). An INSERT calls kv_instance_put().';

create or replace function kv_config._instance_write()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform trunkline.kv_instance_drop(old.hostname, old.shard_name);
    return old;
  end if;
  perform trunkline.kv_instance_put(new.hostname, new.shard_name,
    format('host=%s port=%s dbname=%s user=kv_replicationd',
           new.hostname, coalesce(new.port, 5432), new.shard_name));
  return new;
end $$;
create or replace trigger instance_write instead of insert or delete on kv_config.shard_instance
  for each row execute function kv_config._instance_write();

create or replace view kv_config.my_info with (security_invoker = true) as
  select (select i.hostname from kv_config._instances() i where i.here) as hostname;
comment on view kv_config.my_info is 'The host of this database. An UPDATE calls trunkline.kv_instance_here().';

/* Say which host this is: the database is the instance of the shard of its name there. */
create or replace function kv_config._here_write()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline.kv_instance_here(new.hostname, current_database()::text);
  return new;
end $$;
create or replace trigger here_write instead of update on kv_config.my_info
  for each row execute function kv_config._here_write();

create or replace function kv_config.push_catalog_changes()
returns void language sql set search_path = pg_catalog, pg_temp as '';
comment on function kv_config.push_catalog_changes() is 'Nothing: instances pull what belongs to the parade.';

grant select, insert, delete
  on kv_config.catalog_instance, kv_config.shard_name, kv_config.shard_instance to public;
grant select, update on kv_config.my_info to public;
select trunkline.kv_namespace_put('kv_config');
