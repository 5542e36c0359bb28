/* TL410 unless this life of an instance has begun with a copy and was heard of within kv.peer_patience: what it misses may be gone.  TL409 until the instance has
   said what it knows of this one since the server started: positions may have another meaning for it. */
create or replace function trunkline._kv_follower_check(instance text, origin bigint)
returns void language plpgsql stable as $$
declare
  proved boolean;
begin
  select coalesce(p.proved_at = pg_postmaster_start_time(), false) into proved
    from trunkline._kv_followers() f join trunkline.kv_peer p on p.instance = f.instance
    where f.instance = _kv_follower_check.instance and p.asked_origin = _kv_follower_check.origin;
  if not found then
    perform trunkline._kv_asker_check(instance);
    raise exception using errcode = 'TL410', message = format('nothing is kept here for this life of instance "%s".', instance),
      hint = 'It starts again with a copy: trunkline up does that.';
  elsif not proved then
    raise exception using errcode = 'TL409', message = format('this server has started since instance "%s" was heard.', instance),
      hint = 'Say kv_hello() first: trunkline up does that.';
  end if;
end $$;
