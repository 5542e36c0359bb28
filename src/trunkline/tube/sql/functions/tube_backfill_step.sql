/* Do the next chunk of a backfill.  The table is read with your rights.  Returns whether there is more to do now; when
   all rows are emitted it waits, step by step, for transactions that were open at the start, then writes backfill_end.
   Two callers at once: one works.  Errors: TL404. */
create or replace function trunkline.tube_backfill_step(backfill bigint)
returns boolean language plpgsql as $$
declare
  work trunkline.tube_backfill := trunkline._tube_backfill_take(backfill);
  attached trunkline.tube_table;
  columns text[];
  types text[];
  keys text[];
  shards int[];
  reached text[];
begin
  if work.backfill is null or work.status not in ('running', 'finishing') then
    return false;
  elsif work.status = 'finishing' then
    return trunkline._tube_backfill_finish(work);
  end if;
  attached := trunkline._tube_attachment(work.attachment);
  columns := array_remove(array[work.order_by], null) || attached.key_columns;
  select array_agg(format_type(a.atttypid, a.atttypmod) order by c.place) into types
    from unnest(columns) with ordinality c (name, place) join pg_attribute a on a.attrelid = attached.relation and a.attname = c.name and a.attnum > 0;
  execute format($sql$
    select array_agg(s.key order by s.place), array_agg(s.shard order by s.place), (array_agg(s.reached::text order by s.place desc))[1]::text[]
      from (select %1$s as key, %2$s as shard, array[%3$s] as reached, row_number() over (order by %4$s) as place
              from %5$s r where %6$s%7$s order by %4$s limit $2) s $sql$,
    trunkline._tube_key(attached),
    coalesce('greatest(coalesce((' || attached.shard_expression || E'\n)::int, 0), 0)', 'null::int'),
    (select string_agg(format('r.%I::text', c), ', ' order by i) from unnest(columns) with ordinality u (c, i)),
    (select string_agg(format('r.%I', c), ', ' order by i) from unnest(columns) with ordinality u (c, i)),
    attached.relation,
    case when work.reached is null then 'true' else format('(%s) > (%s)',
      (select string_agg(format('r.%I', c), ', ' order by i) from unnest(columns) with ordinality u (c, i)),
      (select string_agg(format('($1[%s])::%s', i, types[i]), ', ' order by i) from unnest(columns) with ordinality u (c, i))) end,
    trunkline._tube_conditions(attached))
    into keys, shards, reached using work.reached, work.chunk;
  perform trunkline._tube_backfill_advance(work, keys, case when attached.shard is null then shards end, reached);
  return true;
end $$;
comment on function trunkline.tube_backfill_step(bigint) is 'Do the next chunk of a backfill; whether there is more to do.';
select trunkline._access('tube_backfill_step(bigint)', 'reader');
