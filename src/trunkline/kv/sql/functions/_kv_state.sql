/* What other zones need to know of a key.  The value stands in a list of one: in records JSON null and NULL are the same. */
create or replace function trunkline._kv_state(entry trunkline.kv_entry)
returns jsonb language sql stable as $$
  select case when entry.value is not null and coalesce(entry.expires_at, entry.counted_until) is null and c.counters is null
    then jsonb_build_object('namespace', entry.namespace, 'key', entry.key, 'stamp', entry.stamp, 'origin', entry.origin, 'counted_stamp', entry.counted_stamp,
           'value', jsonb_build_array(entry.value))
    else jsonb_build_object('namespace', entry.namespace, 'key', entry.key, 'stamp', entry.stamp, 'origin', entry.origin, 'counted_stamp', entry.counted_stamp,
           'value', case when entry.value is not null then jsonb_build_array(entry.value) end, 'expires_at', entry.expires_at,
           'counted_until', entry.counted_until, 'counters', c.counters) end
    from (select jsonb_agg(jsonb_build_array(c.field, c.origin, c.generation, c.version, c.sum, c.gone_version, c.gone_sum)) as counters
            from trunkline.kv_counter c where c.namespace = entry.namespace and c.key = entry.key) c;
$$;
