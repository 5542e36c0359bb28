/* The statements of pg-tube over the tubes of trunkline.  Put the schema into the search path to call them as
   printed. */
create or replace function tube.tube_ensure_exists(
  tube text, partitions int default 1, predicate text default null)
returns void language plpgsql as $$
begin
  perform trunkline.tube_ensure($1, lanes => $2, condition => coalesce($3, ''));
end $$;
comment on function tube.tube_ensure_exists(text, int, text) is
  'Make a tube, or change it: trunkline.tube_ensure().';

create or replace function tube.tube_ensure_absent(tube text)
returns void language plpgsql as $$
begin
  if exists (select from trunkline.tube_list() l where l.tube = $1) then
    perform trunkline.tube_drop($1, force => true);
  end if;
end $$;
comment on function tube.tube_ensure_absent(text) is 'Drop a tube with what it holds: trunkline.tube_drop().';

create or replace function tube.tube_list(in_tbl regclass default null)
returns table (tube text, predicate text, partitions int, tbl regclass, shard int) language sql stable as $$
  select l.tube, l.condition, l.lanes, l.relation, case when l.shard ~ '^[0-9]+$' then l.shard::int end
    from trunkline.tube_list($1) l;
$$;
comment on function tube.tube_list(regclass) is 'Tubes and their tables: trunkline.tube_list().';

/* Without a shard it is the number at the end of the name of the schema or the table. */
create or replace function tube.tube_table_ensure_attached(tube text, tbl regclass, shard int default null)
returns void language plpgsql as $$
begin
  perform trunkline.tube_attach($1, $2, shard => $3::text);
end $$;
comment on function tube.tube_table_ensure_attached(text, regclass, int) is
  'Capture the changes of a table: trunkline.tube_attach().';

create or replace function tube.tube_table_ensure_detached(tube text, tbl regclass)
returns void language plpgsql as $$
begin
  perform trunkline.tube_detach($1, $2);
end $$;
comment on function tube.tube_table_ensure_detached(text, regclass) is
  'Stop capturing a table: trunkline.tube_detach().';

create or replace function tube.tube_backfill_step1()
returns text language sql as $$
  select trunkline.tube_head()::text;
$$;
comment on function tube.tube_backfill_step1() is
  'A number for tube_backfill_step3(), which does not need it.';

create or replace function tube.tube_backfill_step2(timeout interval default '60 seconds')
returns void language sql as '';
comment on function tube.tube_backfill_step2(interval) is
  'Nothing: the backfill itself waits for the transactions that were open at its start before it ends.';

/* Emit every row of the table in this transaction.  backfill_end follows when the transactions that were open
   at the start are over: the next call of trunkline.tube_backfill_step() writes it, which trunkline up makes.
   Errors: TL404, TL422 another shard than that of the table. */
create or replace function tube.tube_backfill_step3(
  step1 text, tube text, tbl regclass, order_col text, shard int default null)
returns void language plpgsql as $$
declare
  work bigint;
  attached text;
begin
  select l.shard into attached from trunkline.tube_list($3) l where l.tube = $2;
  if $5::text <> attached then
    perform trunkline._raise('TL422',
      format('table %s was attached to tube "%s" with the shard %s, got %s.', $3, $2, attached, $5));
  end if;
  select b.backfill into work from trunkline.tube_backfill_schedule($2, $3, order_by => $4) b;
  while trunkline.tube_backfill_step(work) loop end loop;
end $$;
comment on function tube.tube_backfill_step3(text, text, regclass, text, int) is
  'Emit every row of a table: trunkline.tube_backfill_schedule() and tube_backfill_step().';

/* Touch the keys that a query returns in its first column; a row number beside it is ignored.  Several tubes
   are separated by commas. */
create or replace function tube.tube_pods_insert(
  tube_or_tubes text, query text, shard int, op text default 'B', approx_size bigint default null,
  fetch_chunk_size int default 20000, insert_chunk_size int default 250)
returns void language plpgsql as $$
begin
  perform trunkline.tube_insert(regexp_split_to_array($1, ' *, *'), $2, $3, op => $4, chunk => $6);
end $$;
comment on function tube.tube_pods_insert(text, text, int, text, bigint, int, int) is
  'Touch every key that a query returns: trunkline.tube_insert().';

/* What waits in a tube and is committed, at most 1000 pods of each lane and priority. */
create or replace function tube.tube_pods(tube text)
returns table (seq bigint, op text, shard int, ids text[], payload jsonb, ts timestamptz)
language plpgsql as $$
begin
  perform trunkline.tube_tick();
  return query
    select e.up_to,
           case when e.control = 'backfill_end' then 'B' else e.op end,  -- it comes after what it ends
           e.shard, e.keys,
           case when e.control is null then e.payload
                else jsonb_build_object('type', e.control) || e.payload end,
           e.at
      from trunkline.tube_stats($1) s
     cross join lateral (values (0, s.live_up_to), (1, s.backfill_up_to)) p (priority, up_to)
     cross join lateral trunkline.tube_read($1, s.lane, p.priority, p.up_to + 1, trunkline.tube_head()) e;
end $$;
comment on function tube.tube_pods(text) is
  'What waits in a tube, as the table of the tube shows it there: trunkline.tube_read().';

create or replace function tube.tube_stats()
returns table (
  tube text, predicate text, partition int, shards bigint, inc_count bigint, backfill_count bigint,
  min_ts timestamptz, max_seq bigint)
language sql stable as $$
  select s.tube, min(l.condition), s.lane,
         count(l.relation) filter (where l.shard !~ '^[0-9]+$' or l.shard::int % l.lanes = s.lane),
         s.live_entries, s.backfill_entries, s.oldest_at, s.head
    from trunkline.tube_stats() s join trunkline.tube_list() l on l.tube = s.tube
   group by s.tube, s.lane, s.live_entries, s.backfill_entries, s.oldest_at, s.head
   order by s.tube, s.lane;
$$;
comment on function tube.tube_stats() is 'What waits in each lane of each tube: trunkline.tube_stats().';
