/* An Arrow validity bitmap (least significant bit first); NULL when everything is valid. */
create or replace function trunkline._log_valid_bytes(valid boolean[])
returns bytea language sql immutable parallel safe as $$
  select case when not (false = any (valid)) then null else (
    select string_agg(set_byte(E'\\x00', 0, (
             select sum((valid[1 + byte * 8 + bit])::int << bit)::int from generate_series(0, 7) bit where 1 + byte * 8 + bit <= cardinality(valid))), ''
             order by byte)
      from generate_series(0, (cardinality(valid) - 1) / 8) byte) end;
$$;
