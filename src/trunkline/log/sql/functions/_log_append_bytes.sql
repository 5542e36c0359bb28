/* How large a record batch is. */
create or replace function trunkline._log_append_bytes(value_ends bytea, payload bytea, key_ends bytea, keys bytea, headers bytea)
returns bigint language sql immutable as $$
  select octet_length(payload)::bigint + octet_length(value_ends) + coalesce(octet_length(keys), 0) + coalesce(octet_length(key_ends), 0)
         + coalesce(octet_length(headers), 0);
$$;
