/* Do the columns of a record batch fit together?  Lengths, first and last ends, headers; frames of zstd are told
   by their magic number only.  Ends in between are not looked at, for that would cost as much as the append:
   readers check them. */
create or replace function trunkline._log_whole(
  n int, codec int, value_ends bytea, payload bytea, value_valid bytea, key_ends bytea, keys bytea, key_valid bytea, headers bytea)
returns boolean language plpgsql immutable as $$
declare
  ends bigint := 4 * (n::bigint + 1);
  bits bigint := (n::bigint + 7) / 8;
begin
  if n is null or n < 1 or codec is null or codec not in (0, 1) or payload is null or value_ends is null
     or (keys is null) <> (key_ends is null) or keys is null and key_valid is not null
     or octet_length(value_valid) <> bits or octet_length(key_valid) <> bits then
    return false;
  elsif codec = 1 then
    return '\x28b52ffd' = all (array_remove(array[substr(payload, 1, 4), substr(value_ends, 1, 4), substr(keys, 1, 4), substr(key_ends, 1, 4),
                                                 substr(headers, 1, 4)], null));
  elsif octet_length(value_ends) <> ends or octet_length(key_ends) <> ends then
    return false;
  elsif trunkline._log_int(value_ends, 0) <> 0 or trunkline._log_int(value_ends, n) <> octet_length(payload)
     or trunkline._log_int(key_ends, 0) <> 0 or trunkline._log_int(key_ends, n) <> octet_length(keys) then
    return false;
  end if;
  return headers is null or trunkline._log_headers_whole(headers, n);
end $$;
