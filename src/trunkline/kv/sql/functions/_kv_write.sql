/* Put values under keys, or delete those whose value is NULL: one row per key with INSERT (it did not live before), UPDATE or
   CONFLICT (nothing was changed).  Each is stamped above what it replaces, so that of two writes here the later one wins
   everywhere; a given stamp must be above by itself, and above what was forgotten.  if_version '' means that the key must not
   live; a version or a stamp is given for one key alone.
   Locks keys in their order, before they are looked at: a statement sees the counters of a key as they were when it began.
   Ends what was counted, as far as it is known here.
   Keys are looked up one by one: asked for as a set, Postgres 15 reads a whole namespace that it believes to be small. */
create or replace function trunkline._kv_write(
  namespace text, keys text[], payloads jsonb[], expires_at timestamptz, if_version text default null, stamp bigint default null)
returns table (key text, answer text) language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  life trunkline.kv_life := trunkline._kv_life();
  floor bigint := (select c.floor from trunkline.kv_clock c);
  now_ bigint := trunkline._kv_now();
  lowest bigint := greatest(now_, floor + 1);
  known boolean;
  counted text;
  written text[];
  answered text[];
  answers text[];
begin
  if stamp is not null and (stamp > now_ + trunkline._kv_skew() or stamp <= 0) then
    raise exception using errcode = 'TL422', message = format('a stamp counts microseconds since 1970 and is not in the future by more than kv.max_skew, got %s.', stamp);
  elsif if_version <> '' and if_version !~ '^[0-9]{1,19}-[0-9]{1,19}(-[0-9a-f]{16})?$' then
    raise exception using errcode = 'TL422', message = format('a version is what a read answered, or nothing for a key that must not be there, got "%s".', left(if_version, 80));
  end if;
  loop
    perform 1 from (select u.key from unnest(keys) u (key) order by u.key collate "C") k cross join lateral (
      select from trunkline.kv_entry e where e.namespace = _kv_write.namespace and e.key = k.key offset 0 for no key update) e;
    known := found;
    with given as (
      select distinct on (u.key) u.key, u.value from unnest(keys, payloads) with ordinality u (key, value, place) order by u.key, u.place desc),
    before as (
      select e.key, s.lives, if_version is null or if_version = case when s.lives then trunkline._kv_version(e) else '' end as fits
        from (select distinct u.key from unnest(keys) u (key)) k
        cross join lateral (select e.* from trunkline.kv_entry e where e.namespace = _kv_write.namespace and e.key = k.key offset 0) e
        cross join lateral (select trunkline._kv_value(e, case when e.dead_at is null then now() else trunkline._kv_time() end) is not null as lives) s),
    put as (
      insert into trunkline.kv_entry as e (namespace, key, value, stamp, origin, expires_at, counted_stamp, dead_at, xid_space, xid)
      select _kv_write.namespace, g.key, g.value, coalesce(_kv_write.stamp, lowest), life.origin, _kv_write.expires_at, coalesce(_kv_write.stamp, lowest),
             trunkline._kv_dead_at(g.value, coalesce(_kv_write.stamp, lowest), _kv_write.expires_at, null), life.xid_space, pg_current_xact_id()
        from given g left join before b on b.key = g.key
       where case when b.key is not null then b.fits else coalesce(if_version, '') = '' and coalesce(_kv_write.stamp > floor, true) end
       order by g.key collate "C"
      on conflict on constraint kv_entry_pkey do update
         set value = excluded.value, expires_at = excluded.expires_at, origin = excluded.origin,
             stamp = greatest(excluded.stamp, case when _kv_write.stamp is null then greatest(e.stamp, e.counted_stamp) + 1 end),
             counted_stamp = greatest(excluded.stamp, case when _kv_write.stamp is null then greatest(e.stamp, e.counted_stamp) + 1 end),
             counted_until = null, xid_space = excluded.xid_space, xid = excluded.xid,
             dead_at = trunkline._kv_dead_at(excluded.value,
               greatest(excluded.stamp, case when _kv_write.stamp is null then greatest(e.stamp, e.counted_stamp) + 1 end), excluded.expires_at, null)
       where (_kv_write.stamp is null or _kv_write.stamp > greatest(e.stamp, e.counted_stamp)) and (if_version is null or known)
      returning e.key, e.xmax = 0 as made)
    select array_agg(g.key), array_agg(case when p.key is null then 'CONFLICT' when p.made or not coalesce(b.lives, true) then 'INSERT' else 'UPDATE' end),
           array_agg(g.key) filter (where p.key is not null)
      into answered, answers, written
      from given g left join before b on b.key = g.key left join put p on p.key = g.key;
    -- somebody else has made the key meanwhile: look what it is
    exit when written is not null or known or coalesce(if_version, 'any') <> '' or stamp <= floor;
  end loop;
  if written is not null then
    for counted in select w.key from unnest(written) w (key) cross join lateral (
        select from trunkline.kv_counter c where c.namespace = _kv_write.namespace and c.key = w.key and c.version > c.gone_version limit 1) c
    loop
      update trunkline.kv_counter c set gone_version = c.version, gone_sum = c.sum
       where c.namespace = _kv_write.namespace and c.key = counted and c.version > c.gone_version;
    end loop;
    perform trunkline._kv_note(namespace, written, life.origin);
  end if;
  return query select u.key, u.answer from unnest(answered, answers) u (key, answer);
end $$;
