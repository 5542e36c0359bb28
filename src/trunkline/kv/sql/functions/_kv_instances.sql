/* The instances of the parade.  Found by index, whatever a session knew of the keys when it planned. */
create or replace function trunkline._kv_instances()
returns table (instance text, zone text, shard text, dsn text, stamp bigint) language sql stable set enable_seqscan = off as $$
  select substr(e.key, 10), split_part(e.key, '/', 2), split_part(e.key, '/', 3), e.value ->> 'dsn', e.stamp
    from trunkline.kv_entry e where e.namespace = 'parade' and e.key > 'instance/' and e.key < 'instance0' and e.value is not null;
$$;
