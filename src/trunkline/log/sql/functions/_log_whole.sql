/* Do the columns of a record batch fit together?  Lengths, first and last ends, headers; frames of zstd are told
   by their magic number only.  Ends in between are not looked at, for that would cost as much as the append:
   readers check them.  One expression, so that it becomes a part of its caller's. */
create or replace function trunkline._log_whole(
  n int, codec int, value_ends bytea, payload bytea, value_valid bytea, key_ends bytea, keys bytea, key_valid bytea, headers bytea)
returns boolean language sql immutable as $$
  select coalesce(
    n >= 1 and payload is not null and value_ends is not null
    and (keys is null) = (key_ends is null) and (keys is not null or key_valid is null)
    and coalesce(octet_length(value_valid) = (n::bigint + 7) / 8, true) and coalesce(octet_length(key_valid) = (n::bigint + 7) / 8, true)
    and case codec
      when 0 then
        octet_length(value_ends) = 4 * (n::bigint + 1)
        and trunkline._log_int(value_ends, 0) = 0 and trunkline._log_int(value_ends, n) = octet_length(payload)
        and (key_ends is null
             or octet_length(key_ends) = 4 * (n::bigint + 1)
                and trunkline._log_int(key_ends, 0) = 0 and trunkline._log_int(key_ends, n) = octet_length(keys))
        and (headers is null or trunkline._log_headers_whole(headers, n))
      when 1 then
        E'\\x28b52ffd' = all (array_remove(array[substr(payload, 1, 4), substr(value_ends, 1, 4), substr(keys, 1, 4), substr(key_ends, 1, 4),
                                               substr(headers, 1, 4)], null))
    end, false);
$$;
