/* A number for every part of all living keys that tells which versions there are: two copies whose numbers are the same have the same keys.  Parts without keys are left out.
   Errors: TL422. */
create or replace function trunkline.kv_digest(buckets int default 256)
returns table (bucket int, keys bigint, digest bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  now_ timestamptz := trunkline._kv_time();
begin
  if buckets is null or buckets not between 1 and 1000000 then
    raise exception using errcode = 'TL422', message = format('there are 1 to 1000000 parts, got %s.', coalesce(buckets::text, 'NULL'));
  end if;
  return query
    select trunkline._kv_bucket_of(e.namespace, e.key, buckets), count(*),
           bit_xor(('x' || left(md5(concat_ws(' ', e.namespace, e.key, e.stamp, e.origin, e.counted_stamp, extract(epoch from e.counted_until), (
             select string_agg(concat_ws(' ', c.field, c.origin, c.generation, c.version, c.gone_version), ',' order by c.field collate "C", c.origin)
               from trunkline.kv_counter c where c.namespace = e.namespace and c.key = e.key))), 16))::bit(64)::bigint)
      from trunkline.kv_entry e where (e.value is not null or e.counted_until is not null) and (e.dead_at is null or e.dead_at > now_)
     group by 1 order by 1;
end $$;
comment on function trunkline.kv_digest(int) is 'A number for every part of all living keys, to compare two copies by.';
select trunkline._access('kv_digest(int)', 'admin');
