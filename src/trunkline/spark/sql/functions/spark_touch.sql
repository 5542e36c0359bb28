/* Touch the keys of staged rows in a tube, each once, and drop the staging tables.  `counts` are what the tasks reported, as in spark_append(); the rest is as in
   tube_touch().  Without staging tables it only looks for the tube.  Call spark_commit() first in the same transaction.  Returns
   how many keys.  Errors: TL410, those of tube_touch(). */
create or replace function trunkline.spark_touch(numbers bigint[], counts bigint[], tube text, relation regclass default null, op text default 'T', shard int default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  source text;
  part record;
  touched bigint := 0;
begin
  perform trunkline._tube_row(tube);
  source := trunkline._spark_staged(numbers, counts, 'rows');
  if source is null then
    return 0;
  end if;
  for part in execute format('
    select array_agg(r.key) as keys
      from (select r.key, (row_number() over (order by r.key collate "C") - 1) / 20000 as part from (select distinct r.key from (%s) r) r) r
     group by r.part order by r.part', source)
  loop
    if array_position(part.keys, null) is not null then
      raise exception using errcode = 'TL422', message = 'a key is a text, got NULL.', hint = 'Leave rows without a key out.';
    end if;
    touched := touched + trunkline.tube_touch(tube, relation, part.keys, null, op, shard);
  end loop;
  perform trunkline.spark_unstage(numbers);
  return touched;
end $$;
comment on function trunkline.spark_touch(bigint[], bigint[], text, regclass, text, int) is 'Touch the keys of staged rows in a tube and drop their staging tables; returns how many keys.';
select trunkline._access('spark_touch(bigint[], bigint[], text, regclass, text, int)', 'writer');
