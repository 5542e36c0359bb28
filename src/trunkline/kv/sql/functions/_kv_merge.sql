/* Take in what another zone says of keys: whatever the order and however often, all zones come to the same.  A value goes by the highest
   (stamp, origin), the time of counters by the highest counted_stamp, a counter by its generation and then by the highest
   version of both its sums.  Keys are locked in their order.  Returns how many keys changed; only those are passed on.
   In a life that is not whole, keys that a peer has are no longer in doubt. */
create or replace function trunkline._kv_merge(states jsonb, via bigint)
returns int language plpgsql set jit = off as $$
declare
  life trunkline.kv_life := trunkline._kv_life();
  changed jsonb;
begin
  with given as materialized (
    select s.namespace, s.key collate "C" as key, s.value -> 0 as value, s.stamp, s.origin, s.expires_at, s.counted_stamp, s.counted_until, s.counters
      from jsonb_to_recordset(states) s (namespace text, key text, value jsonb, stamp bigint, origin bigint, expires_at timestamptz,
             counted_stamp bigint, counted_until timestamptz, counters jsonb)),
  put as (
    insert into trunkline.kv_entry as e (namespace, key, value, stamp, origin, expires_at, counted_stamp, counted_until, dead_at, xid_space, xid)
    select g.namespace, g.key, g.value, g.stamp, g.origin, g.expires_at, g.counted_stamp, g.counted_until,
           trunkline._kv_dead_at(g.value, g.stamp, g.expires_at, g.counted_until), life.xid_space, pg_current_xact_id()
      from given g order by g.namespace, g.key
    on conflict on constraint kv_entry_pkey do update set
      value = case when (excluded.stamp, excluded.origin) > (e.stamp, e.origin) then excluded.value else e.value end,
      expires_at = case when (excluded.stamp, excluded.origin) > (e.stamp, e.origin) then excluded.expires_at else e.expires_at end,
      stamp = greatest(e.stamp, excluded.stamp),
      origin = case when (excluded.stamp, excluded.origin) > (e.stamp, e.origin) then excluded.origin else e.origin end,
      counted_until = case when excluded.counted_stamp > e.counted_stamp then excluded.counted_until
                           when excluded.counted_stamp = e.counted_stamp then greatest(e.counted_until, excluded.counted_until) else e.counted_until end,
      counted_stamp = greatest(e.counted_stamp, excluded.counted_stamp),
      dead_at = trunkline._kv_dead_at(
        case when (excluded.stamp, excluded.origin) > (e.stamp, e.origin) then excluded.value else e.value end,
        greatest(e.stamp, excluded.stamp),
        case when (excluded.stamp, excluded.origin) > (e.stamp, e.origin) then excluded.expires_at else e.expires_at end,
        case when excluded.counted_stamp > e.counted_stamp then excluded.counted_until
             when excluded.counted_stamp = e.counted_stamp then greatest(e.counted_until, excluded.counted_until) else e.counted_until end),
      xid_space = excluded.xid_space, xid = excluded.xid
    where (excluded.stamp, excluded.origin) > (e.stamp, e.origin) or excluded.counted_stamp > e.counted_stamp
       or excluded.counted_stamp = e.counted_stamp and greatest(e.counted_until, excluded.counted_until) is distinct from e.counted_until
    returning e.namespace, e.key)
  select coalesce(jsonb_agg(jsonb_build_array(p.namespace, p.key)), '[]') into changed from put p;
  if states @? '$[*].counters ? (@ != null)' then
    with counted as (
      insert into trunkline.kv_counter as c (namespace, key, field, origin, generation, version, sum, gone_version, gone_sum)
      select s.namespace, s.key, n ->> 0, (n ->> 1)::bigint, (n ->> 2)::bigint, (n ->> 3)::bigint, (n ->> 4)::numeric, (n ->> 5)::bigint, (n ->> 6)::numeric
        from jsonb_to_recordset(states) s (namespace text, key text, counters jsonb), jsonb_array_elements(s.counters) n
       order by 1, s.key collate "C", 3, 4
      on conflict on constraint kv_counter_pkey do update set
        version = case when excluded.generation > c.generation then excluded.version else greatest(c.version, excluded.version) end,
        sum = case when excluded.generation > c.generation or excluded.version > c.version then excluded.sum else c.sum end,
        gone_version = case when excluded.generation > c.generation then excluded.gone_version else greatest(c.gone_version, excluded.gone_version) end,
        gone_sum = case when excluded.generation > c.generation or excluded.gone_version > c.gone_version then excluded.gone_sum else c.gone_sum end,
        generation = excluded.generation
      where excluded.generation > c.generation
         or excluded.generation = c.generation and (excluded.version > c.version or excluded.gone_version > c.gone_version)
      returning c.namespace, c.key),
    touched as (  -- an entry is another one when its counters are: kv_forget() and older snapshots go by it
      update trunkline.kv_entry e set xid_space = life.xid_space, xid = pg_current_xact_id()
        from (select distinct k.namespace, k.key from counted k) k
       where e.namespace = k.namespace and e.key = k.key and e.xid <> pg_current_xact_id())
    select coalesce(jsonb_agg(distinct u.pair), '[]') into changed
      from (select jsonb_array_elements(changed) union all select jsonb_build_array(k.namespace, k.key) from counted k) u (pair);
  end if;
  if not life.whole then
    update trunkline.kv_entry e set xid_space = life.xid_space, xid = pg_current_xact_id()
      from jsonb_to_recordset(states) s (namespace text, key text)
     where e.namespace = s.namespace and e.key = s.key and trunkline._kv_doubtful(e, life);
  end if;
  perform trunkline._kv_note(k.namespace, k.keys, via)
     from (select p.pair ->> 0 as namespace, array_agg(p.pair ->> 1) as keys from jsonb_array_elements(changed) p (pair) group by 1) k;
  return jsonb_array_length(changed);
end $$;
