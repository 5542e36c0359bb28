/* Check the options of a downstream as they will be used: their names, their types, and what has to be there.  The types are text, boolean,
   number (from 0), count (a whole number from 1) and any.  A text that names a ${VARIABLE} is filled in by the worker.  TL422. */
create or replace function trunkline._tube_options_check(kind text, options jsonb)
returns void language plpgsql stable as $$
declare
  given record;
  missing text;
begin
  for given in
    with known (name, type) as (
      select k.name, k.type
        from (values
          ('postgres', 'dsn', 'text'), ('postgres', 'table', 'text'), ('postgres', 'create', 'boolean'), ('postgres', 'tombstone_seconds', 'number'),
          ('postgres', 'connect_timeout', 'number'), ('postgres', 'prepare', 'boolean'),
          ('topic', 'dsn', 'text'), ('topic', 'topic', 'text'), ('topic', 'create', 'boolean'), ('topic', 'partitions', 'count'), ('topic', 'compact', 'boolean'),
          ('redis', 'url', 'text'), ('redis', 'prefix', 'text'), ('redis', 'mode', 'text'), ('redis', 'tombstone_seconds', 'count'), ('redis', 'timeout', 'number'),
          ('opensearch', 'url', 'text'), ('opensearch', 'index', 'text'), ('opensearch', 'create', 'boolean'), ('opensearch', 'routing', 'text'),
          ('opensearch', 'username', 'text'), ('opensearch', 'password', 'text'), ('opensearch', 'api_key', 'text'), ('opensearch', 'verify', 'any'),
          ('opensearch', 'timeout', 'number'), ('opensearch', 'body_bytes', 'count'), ('opensearch', 'gzip_above', 'number'),
          ('opensearch', 'tombstone_seconds', 'count'),
          ('callable', 'target', 'text'), ('callable', 'older_than', 'text')) k (kind, name, type)
       where k.kind = _tube_options_check.kind
      union all values
        ('enrich', 'text'), ('worker.batch', 'count'), ('worker.parallelism', 'count'), ('worker.queue_keys', 'count'), ('worker.backfill_share', 'number'),
        ('worker.exclude_backfill', 'boolean'), ('worker.park_after', 'count'), ('worker.retry_first', 'number'), ('worker.retry_longest', 'number'),
        ('worker.poll_interval', 'number'))
    select o.key as name, o.value, k.type, (select string_agg(n.name, ', ') from known n) as names,
           case k.type
             when 'text' then jsonb_typeof(o.value) in ('string', 'null')
             when 'boolean' then jsonb_typeof(o.value) in ('boolean', 'null')
             when 'any' then true
             else jsonb_typeof(o.value) = 'null' or jsonb_typeof(o.value) = 'number' and o.value between '0' and '2147483647'
               and (k.type = 'number' or o.value >= '1' and o.value::text !~ '[.]')
           end as fits
      from jsonb_each(options) o left join known k on k.name = o.key
  loop
    if given.type is null then
      raise exception using errcode = 'TL422', message = format('downstream %s has no option "%s".', kind, left(given.name, 80)),
        hint = format('Known: %s.', given.names);
    elsif not given.fits or left(given.name, 7) = 'worker.' and given.value = 'null' then
      raise exception using errcode = 'TL422', message = format('option %s takes %s, got %s.', given.name,
        case given.type when 'text' then 'a text' when 'boolean' then 'true or false' when 'count' then 'a whole number from 1' else 'a number from 0' end,
        left(given.value::text, 80));
    end if;
  end loop;
  select n.name into missing
    from (values ('topic', 'topic'), ('opensearch', 'url'), ('opensearch', 'index'), ('callable', 'target')) n (kind, name)
   where n.kind = _tube_options_check.kind and coalesce(options ->> n.name, '') = '' limit 1;
  if found then
    raise exception using errcode = 'TL422', message = format('downstream %s needs the option "%s".', kind, missing);
  elsif position('%(keys)s' in coalesce(options ->> 'enrich', '%(keys)s')) = 0 then
    raise exception using errcode = 'TL422', message = 'an enrichment query needs the parameter %(keys)s, an array of texts.';
  elsif (options -> 'worker.backfill_share') > '1' then
    raise exception using errcode = 'TL422', message = format('option worker.backfill_share takes a number from 0 to 1, got %s.', options ->> 'worker.backfill_share');
  elsif coalesce(options ->> 'mode', 'value') not in ('value', 'invalidate') then
    raise exception using errcode = 'TL422', message = format('option mode is "value" or "invalidate", got "%s".', left(options ->> 'mode', 80));
  elsif coalesce(options ->> 'routing', 'shard') <> 'shard' then
    raise exception using errcode = 'TL422', message = format('option routing is "shard" or left out, got "%s".', left(options ->> 'routing', 80));
  end if;
end $$;
select trunkline._access('_tube_options_check(text, jsonb)', 'writer');
