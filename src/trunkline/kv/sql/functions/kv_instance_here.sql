/* Say which instance of the parade this database is.  Errors: TL404 there is no such instance. */
create or replace function trunkline.kv_instance_here(zone text, shard text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from trunkline._kv_instances() i where i.instance = format('%s/%s', kv_instance_here.zone, kv_instance_here.shard)) then
    raise exception using errcode = 'TL404', message = format('the parade has no instance of shard "%s" in zone "%s".', shard, zone),
      hint = 'Make it with kv_instance_put().';
  end if;
  insert into trunkline.kv_here (zone, shard) values (kv_instance_here.zone, kv_instance_here.shard)
  on conflict on constraint kv_here_pkey do update set zone = excluded.zone, shard = excluded.shard;
end $$;
comment on function trunkline.kv_instance_here(text, text) is 'Say which instance of the parade this database is.';
select trunkline._access('kv_instance_here(text, text)', 'admin');
