/* Publish staged rows (ordinal, topic, key, payload, metadata) as events, in the order of the numbers and of the ordinals inside, and drop the staging
   tables.  `counts` are what the tasks reported, as in spark_append().  Keys of topics whose key_order is locked are locked before
   anything is published, as for one call of broker_publish_many().  Without staging tables it does nothing.  Call spark_commit() first in the
   same transaction.  Returns how many events.  Errors: TL410, TL422, those of broker_publish_many(). */
create or replace function trunkline.spark_publish(numbers bigint[], counts bigint[])
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  source text := trunkline._spark_staged(numbers, counts, 'rows');
  wanted record;
  task record;
  part record;
  refused text;
  published bigint := 0;
begin
  if source is null then
    return 0;
  end if;
  if exists (select from trunkline.broker_topic t where t.key_order = 'locked') then
    execute format('select array_agg(k.topic) as topics, array_agg(k.key) as keys from (select distinct r.topic, r.key from (%s) r) k', source) into wanted;
    perform trunkline._event_lock(wanted.topics, wanted.keys);
  end if;
  for task in select u.number, u.rows from unnest(numbers, counts) with ordinality u (number, rows, place) order by u.place loop
    begin
      for part in execute format('
        select array_agg(r.topic order by r.ordinal) as topics, array_agg(r.key order by r.ordinal) as keys,
               array_agg(r.payload::jsonb order by r.ordinal) as payloads, array_agg(r.metadata::jsonb order by r.ordinal) as metadatas
          from (select r.*, (row_number() over ordered - 1) / 5000 + sum(octet_length(r.payload)) over ordered / 67108864 as part
                  from (%s) r window ordered as (order by r.ordinal)) r
         group by r.part order by r.part', trunkline._spark_staged(array[task.number], array[task.rows], 'rows'))
      loop
        published := published + cardinality(trunkline.broker_publish_many(part.topics, part.payloads, part.keys, part.metadatas));
      end loop;
    exception when invalid_text_representation or untranslatable_character then
      get stacked diagnostics refused = pg_exception_detail;
      raise exception using errcode = 'TL422', message = format('a payload or metadata is not JSON: %s', refused),
        hint = 'Make JSON of it, for example with to_json().';
    end;
  end loop;
  perform trunkline.spark_unstage(numbers);
  return published;
end $$;
comment on function trunkline.spark_publish(bigint[], bigint[]) is 'Publish staged rows as events and drop their staging tables; returns how many events.';
select trunkline._access('spark_publish(bigint[], bigint[])', 'writer');
