/* Which partition a key belongs to: the first 8 bytes of its sha256 as an unsigned number, modulo.
   The same in every client; test vectors are in tests/log/golden/key_hash.json. */
create or replace function trunkline.log_partition_of(key bytea, partitions int)
returns int language plpgsql immutable strict parallel safe security definer set search_path = pg_catalog, pg_temp as $$
declare
  hash text := encode(substr(sha256(key), 1, 8), 'hex');
begin
  if partitions < 1 then
    raise exception using errcode = 'TL422', message = format('a topic has at least one partition, got %s.', partitions);
  end if;
  return mod(('x' || substr(hash, 1, 8))::bit(32)::bigint::numeric * 4294967296 + ('x' || substr(hash, 9, 8))::bit(32)::bigint, partitions);
end $$;
comment on function trunkline.log_partition_of(bytea, int) is 'Which partition a key belongs to.';
select trunkline._access('log_partition_of(bytea, int)', 'reader');
