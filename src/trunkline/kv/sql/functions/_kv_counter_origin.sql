/* The origin under which numbers are added.  Until every peer has proved that this copy lacks nothing since the server started, it is one of this start alone: should the
   copy have gone back, its sums do not replace those that others know. */
create or replace function trunkline._kv_counter_origin(life trunkline.kv_life)
returns bigint language sql stable as $$
  select case when life.proved_at = pg_postmaster_start_time() then life.origin
              else ('x' || left(md5(life.origin || ' ' || extract(epoch from pg_postmaster_start_time())), 16))::bit(64)::bigint & 9223372036854775807 end;
$$;
