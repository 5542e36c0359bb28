/* The bytes of a batch that the function of a partition's own may store; NULL when log_append_batch() has to look at it. */
create or replace function trunkline._log_append_plain(
  n int, codec int, value_ends bytea, payload bytea, value_valid bytea, key_ends bytea, keys bytea, key_valid bytea, headers bytea, release_early boolean)
returns bigint language plpgsql stable as $$
begin
  if not release_early and value_valid is null and current_setting('transaction_isolation') = 'read committed'
     and current_setting('synchronous_commit') <> 'off'
     and trunkline._log_whole(n, codec, value_ends, payload, null, key_ends, keys, key_valid, headers) then
    return trunkline._log_append_bytes(value_ends, payload, key_ends, keys, headers);
  end if;
  return null;
end $$;
