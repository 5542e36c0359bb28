/* How many microseconds a clock may be ahead. */
create or replace function trunkline._kv_skew()
returns bigint language sql stable as $$ select (extract(epoch from trunkline._setting('kv.max_skew')::interval) * 1000000)::bigint $$;
