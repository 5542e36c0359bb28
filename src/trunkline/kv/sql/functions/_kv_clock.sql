/* Microseconds since 1970 by this server's clock. */
create or replace function trunkline._kv_clock()
returns bigint language sql volatile as $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;
