/* Which partition a key belongs to: the first 8 bytes of its sha256 as an unsigned number, modulo.
   The same in every client; test vectors are in tests/log/golden/key_hash.json. */
create or replace function trunkline.log_partition_of(key bytea, partitions int)
returns int language sql immutable strict parallel safe security definer set search_path = pg_catalog, pg_temp as $$
  select mod(('x' || encode(substr(sha256(key), 1, 4), 'hex'))::bit(32)::bigint::numeric * 4294967296
           + ('x' || encode(substr(sha256(key), 5, 4), 'hex'))::bit(32)::bigint, partitions)::int;
$$;
comment on function trunkline.log_partition_of(bytea, int) is 'Which partition a key belongs to.';
select trunkline._access('log_partition_of(bytea, int)', 'reader');
