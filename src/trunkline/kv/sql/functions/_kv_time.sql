/* The time by the hybrid clock: when keys expire. */
create or replace function trunkline._kv_time()
returns timestamptz language sql volatile as $$ select to_timestamp(trunkline._kv_now() / 1000000.0) $$;
