/* Which of so many parts of all keys a key belongs to, when copies are compared. */
create or replace function trunkline._kv_bucket_of(namespace text, key text, buckets int)
returns int language sql immutable as $$
  select ((('x' || left(md5(namespace || '/' || key), 8))::bit(32)::bigint & 4294967295) % buckets)::int;
$$;
