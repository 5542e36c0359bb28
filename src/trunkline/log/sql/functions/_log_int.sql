/* The i-th (from 0) int32, little endian, of a buffer. */
create or replace function trunkline._log_int(buffer bytea, i int)
returns int language sql immutable strict parallel safe as $$
  select get_byte(buffer, 4 * i) | (get_byte(buffer, 4 * i + 1) << 8) | (get_byte(buffer, 4 * i + 2) << 16) | (get_byte(buffer, 4 * i + 3) << 24);
$$;
