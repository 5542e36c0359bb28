/* An int32 as four bytes, little endian. */
create or replace function trunkline._log_int_bytes(number int)
returns bytea language sql immutable strict parallel safe as $$
  select int4send(((number & 255) << 24) | ((number & 65280) << 8) | ((number >> 8) & 65280) | ((number >> 24) & 255));
$$;
