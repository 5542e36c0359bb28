/* Touch every key that a query returns (its first column), in the order of the query, in one or several tubes at once.
   The query runs with your rights; progress comes as a NOTICE every 2 seconds and at the end, as JSON.
   Returns how many keys.  Errors: TL404, TL422 chunk, query without a column. */
create or replace function trunkline.tube_insert(
  tubes text[], query text, shard int, op text default 'B', relation regclass default null, chunk int default 20000)
returns bigint language plpgsql as $$
declare
  batch text[];
  total bigint := 0;
  began timestamptz := clock_timestamp();
  said timestamptz := clock_timestamp();
  tube text;
begin
  if chunk is null or chunk < 1 or chunk > 100000 then
    raise exception using errcode = 'TL422', message = format('chunk must be between 1 and 100000, got %s.', coalesce(chunk::text, 'NULL'));
  elsif coalesce(cardinality(tubes), 0) = 0 then
    raise exception using errcode = 'TL422', message = 'name at least one tube.';
  end if;
  foreach tube in array tubes loop
    perform trunkline._tube_row(tube);
  end loop;
  begin
    for batch in execute format(
      E'select array_agg(s.key order by s.n) from (select q.key::text as key, row_number() over () as n from (%s\n) q (key)) s
         where s.key is not null group by (s.n - 1) / %s order by min(s.n)', query, chunk)
    loop
      foreach tube in array tubes loop
        perform trunkline.tube_touch(tube, relation, batch, null, op, shard);
      end loop;
      total := total + cardinality(batch);
      if clock_timestamp() > said + interval '2 seconds' then
        said := clock_timestamp();
        raise notice '%', jsonb_build_object('keys', total, 'seconds', extract(epoch from said - began), 'finished', false);
      end if;
    end loop;
  exception when syntax_error_or_access_rule_violation or data_exception then
    raise exception using errcode = 'TL422', message = format('the query cannot be run: %s.', sqlerrm),
      hint = 'Write a select whose first column is the key.';
  end;
  raise notice '%', jsonb_build_object('keys', total, 'seconds', extract(epoch from clock_timestamp() - began), 'finished', true);
  return total;
end $$;
comment on function trunkline.tube_insert(text[], text, int, text, regclass, int) is 'Touch every key that a query returns, in one or several tubes.';
select trunkline._access('tube_insert(text[], text, int, text, regclass, int)', 'writer');
