/* The lowest position that an instance still has to pull, or that is younger than kv.history. */
create or replace function trunkline._kv_keep_from()
returns bigint language sql stable as $$
  select least((select min(f.up_to) + 1 from trunkline._kv_followers() f),
               coalesce(trunkline._tick_first_since('kv_change', clock_timestamp() - trunkline._setting('kv.history')::interval), trunkline.kv_head() + 1));
$$;
