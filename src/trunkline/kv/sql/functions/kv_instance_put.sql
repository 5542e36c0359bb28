/* Make a shard of a zone part of the parade, or say anew how others reach it: dsn is a connection string that all instances can use.
   Told to all other instances.  Returns whether that changed anything.  Errors: TL422. */
create or replace function trunkline.kv_instance_put(zone text, shard text, dsn text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._kv_name_check('zone', zone);
  perform trunkline._kv_name_check('shard', shard);
  if coalesce(dsn, '') = '' then
    raise exception using errcode = 'TL422', message = 'a dsn is a connection string, got nothing.',
      hint = 'For example postgresql://replicator@host/database';
  end if;
  return trunkline._kv_parade_write(format('instance/%s/%s', zone, shard), jsonb_build_object('dsn', dsn));
end $$;
comment on function trunkline.kv_instance_put(text, text, text) is 'Make a shard of a zone part of the parade.';
select trunkline._access('kv_instance_put(text, text, text)', 'admin');
