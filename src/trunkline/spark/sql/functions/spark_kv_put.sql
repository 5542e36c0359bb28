/* Put staged rows of a key and a value into the key-value store, delete keys whose value is NULL, and drop the staging tables.  `counts` are
   what the tasks reported, as in spark_append().  Values are JSON, or with as_text texts that are kept as they are.  A key that
   comes twice is refused, unless order_by names columns: then the row that is highest in them counts.  Keys are locked in their
   order, so that two drivers never deadlock.  Without staging tables it only checks the rest.  Call spark_commit() first in the same
   transaction.  Returns how many keys were written.  Errors: TL404, TL410, TL422, those of kv_put(). */
create or replace function trunkline.spark_kv_put(
  numbers bigint[], counts bigint[], namespace text, as_text boolean default false, policy text default null, ttl interval default null, order_by text[] default '{}')
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  expires_at timestamptz;
  source text;
  listed text := (select string_agg(format('%I', c), ', ') from unnest(order_by) c);
  doubled text;
  part record;
  refused text;
  written bigint := 0;
begin
  perform trunkline._kv_check(namespace, array['any'], null);
  expires_at := trunkline._kv_expires_at(namespace, policy, ttl);
  source := trunkline._spark_staged(numbers, counts, 'rows');
  if source is null then
    return 0;
  end if;
  execute format('select r.key from (%s) r group by %s having count(*) > 1 limit 1', source, concat_ws(', ', 'r.key', listed)) into doubled;
  if doubled is not null then
    raise exception using errcode = 'TL422', message = format('two rows of one batch have the key "%s"%s.', left(doubled, 80), ' with the same ' || listed),
      hint = 'Which is last? Name the columns that tell it with the option orderBy, or keep one row per key.';
  elsif listed is not null then
    source := format('select distinct on (r.key) r.* from (%s) r order by r.key, %s', source,
      (select string_agg(format('r.%I desc nulls last', c), ', ') from unnest(order_by) c));
  end if;
  begin
    for part in execute format('
      select array_agg(r.key) as keys, array_agg(%s) as payloads
        from (select r.key, r.value, (row_number() over (order by r.key collate "C") - 1) / 5000 as part from (%s) r) r
       group by r.part order by r.part', case when as_text then 'to_jsonb(r.value)' else 'r.value::jsonb' end, source)
    loop
      if array_position(part.keys, null) is not null then
        raise exception using errcode = 'TL422', message = 'a key is a text, got NULL.', hint = 'Leave rows without a key out: where key is not null.';
      end if;
      perform trunkline._kv_check(namespace, part.keys, part.payloads);
      written := written + (select count(*) from trunkline._kv_write(namespace, part.keys, part.payloads, expires_at));
    end loop;
  exception when invalid_text_representation or untranslatable_character then
    get stacked diagnostics refused = pg_exception_detail;
    raise exception using errcode = 'TL422', message = format('a value is not JSON: %s', refused),
      hint = 'Make JSON of it, for example with to_json(), or keep texts as they are with the option valueFormat=text.';
  end;
  perform trunkline.spark_unstage(numbers);
  return written;
end $$;
comment on function trunkline.spark_kv_put(bigint[], bigint[], text, boolean, text, interval, text[]) is 'Put staged rows into the key-value store and drop their staging tables; returns how many keys.';
select trunkline._access('spark_kv_put(bigint[], bigint[], text, boolean, text, interval, text[])', 'writer');
