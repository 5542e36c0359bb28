/* Add numbers to fields of a key: what zones add at the same time adds up.  offsets is an object of numbers; null removes a field, as far as it is
   known here; fields that are not named stay.  A key that is not there begins as an empty object.  Answers INSERT or UPDATE.
   The key lives as long as the last patch or put says.  Errors: TL403, TL404, TL409 the clock is too far ahead, TL422. */
create or replace function trunkline.kv_patch_numeric(
  namespace text, key text, offsets jsonb default null, policy text default null, ttl interval default null)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  life trunkline.kv_life := trunkline._kv_life();
  until timestamptz;
  now_ bigint;
  time_ timestamptz;
  entry trunkline.kv_entry;
  document jsonb;
  removed text[];
  shown jsonb;
  now_stamp bigint;
  fault text;
begin
  perform trunkline._kv_check(namespace, array[key], array[offsets]);
  if offsets is null or jsonb_typeof(offsets) <> 'object' then
    perform trunkline._raise('TL422', format('offsets are a JSON object of numbers, got %s.', coalesce(left(offsets::text, 80), 'NULL')));
  end if;
  select f.key into fault from jsonb_each(offsets) f where jsonb_typeof(f.value) not in ('number', 'null') limit 1;
  if found then
    perform trunkline._raise('TL422', format('field "%s" is a number to add, or null to remove it, got %s.', fault, left((offsets -> fault)::text, 80)));
  end if;
  select f.key into fault from jsonb_each(offsets) f where octet_length(f.key) > trunkline._setting('kv.key_bytes')::int limit 1;
  if found then
    perform trunkline._raise('TL422', format('the name of a field has at most %s bytes, got %s: "%s...".', trunkline._setting('kv.key_bytes'), octet_length(fault), left(fault, 40)),
      'The limit is the setting kv.key_bytes.');
  end if;
  select f.key into fault from jsonb_each(offsets) f where jsonb_typeof(f.value) = 'number' and not trunkline._kv_addable(f.value) limit 1;
  if found then
    perform trunkline._raise('TL422', format('a number to add has at most 100 digits on each side of its point, field "%s" has more.', left(fault, 80)));
  end if;
  until := coalesce(trunkline._kv_expires_at(namespace, policy, ttl), 'infinity');
  loop
    select e.* into entry from trunkline.kv_entry e
     where e.namespace = kv_patch_numeric.namespace and e.key = kv_patch_numeric.key for no key update;
    exit when found;
    insert into trunkline.kv_entry (namespace, key, stamp, origin, dead_at, xid_space, xid)
    values (kv_patch_numeric.namespace, kv_patch_numeric.key, 0, 0, 'epoch', life.xid_space, pg_current_xact_id())
    on conflict on constraint kv_entry_pkey do nothing;
  end loop;
  now_ := trunkline._kv_now();  -- after the wait for the lock
  time_ := to_timestamp(now_ / 1000000.0);
  shown := trunkline._kv_value(entry, time_);
  if jsonb_typeof(shown) <> 'object' then
    perform trunkline._raise('TL422', format('numbers are added to the fields of an object, the value of "%s" is of type %s.', left(key, 80), jsonb_typeof(shown)));
  end if;
  document := case when entry.expires_at <= time_ then null else entry.value end;
  select f.key into fault from jsonb_each(offsets) f where jsonb_typeof(f.value) = 'number' and not trunkline._kv_addable(document -> f.key) limit 1;
  if found then
    perform trunkline._raise('TL422', format('field "%s" holds %s, to which no number can be added.', fault, left((document -> fault)::text, 80)));
  end if;
  now_stamp := greatest(now_, (select c.floor + 1 from trunkline.kv_clock c), greatest(entry.stamp, entry.counted_stamp) + 1);
  removed := array(select f.key from jsonb_each(offsets) f where jsonb_typeof(f.value) = 'null');
  update trunkline.kv_counter c set gone_version = c.version, gone_sum = c.sum
   where c.namespace = kv_patch_numeric.namespace and c.key = kv_patch_numeric.key and c.version > c.gone_version
     and (c.field = any (removed) or entry.counted_until is null or entry.counted_until <= time_);
  insert into trunkline.kv_counter as c (namespace, key, field, origin, generation, version, sum)
  select kv_patch_numeric.namespace, kv_patch_numeric.key, f.key, trunkline._kv_counter_origin(life), now_stamp, now_stamp, f.value::numeric
    from jsonb_each(offsets) f where jsonb_typeof(f.value) = 'number' order by f.key
  on conflict on constraint kv_counter_pkey do update set version = excluded.version, sum = c.sum + excluded.sum;
  if document ?| removed then
    entry.value := document - removed;
    entry.stamp := now_stamp;
    entry.origin := life.origin;
  end if;
  -- a document lives as long as what is added to it
  if document is not null and coalesce(entry.expires_at, 'infinity') <> until then
    entry.expires_at := nullif(until, 'infinity');
    entry.stamp := now_stamp;
    entry.origin := life.origin;
  end if;
  update trunkline.kv_entry e
     set value = entry.value, stamp = entry.stamp, origin = entry.origin, expires_at = entry.expires_at, counted_stamp = now_stamp, counted_until = until,
         dead_at = trunkline._kv_dead_at(entry.value, entry.stamp, entry.expires_at, until), xid_space = life.xid_space, xid = pg_current_xact_id()
   where e.namespace = kv_patch_numeric.namespace and e.key = kv_patch_numeric.key;
  perform trunkline._kv_note(namespace, array[key], life.origin);
  return case when shown is null then 'INSERT' else 'UPDATE' end;
end $$;
comment on function trunkline.kv_patch_numeric(text, text, jsonb, text, interval) is 'Add numbers to fields of a key: what zones add at the same time adds up.';
select trunkline._access('kv_patch_numeric(text, text, jsonb, text, interval)', 'writer');
