/* The version of what a key says, for compare-and-set: another one after every put, delete and patch that has arrived here. */
create or replace function trunkline._kv_version(entry trunkline.kv_entry)
returns text language sql stable as $$
  select entry.stamp || '-' || entry.origin || case when entry.counted_until is null then '' else coalesce((
    select '-' || left(md5(string_agg(concat_ws(' ', c.field, c.origin, c.generation, c.version, c.gone_version), ',' order by c.field collate "C", c.origin)), 16)
      from trunkline.kv_counter c where c.namespace = entry.namespace and c.key = entry.key), '') end;
$$;
