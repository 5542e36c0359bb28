/* The query for the next rows of a backfill: takes where it is ($1) and how many rows to look at (the only element of $2), gives keys, reached,
   shards and n, the rows looked at.  attached is as _tube_reading() gives it.  Few may meet the condition: no step is longer for it.  Carefully: each row
   is asked by itself, as an expression failed. */
create or replace function trunkline._tube_backfill_query(work trunkline.tube_backfill, attached trunkline.tube_table, carefully boolean)
returns text language plpgsql stable as $$
declare
  columns text[] := array_remove(array[work.order_by], null) || attached.key_columns;
  types text[] := trunkline._tube_key_types(attached.relation, columns);
  ordering text := (select string_agg(format('r.%I', c), ', ' order by i) from unnest(columns) with ordinality u (c, i));
  rows_ text := format('%s r where %s order by %s limit $2[1]', trunkline._hook_name(attached.relation),
    case when work.reached is null then 'true' else format('(%s) > (%s)', ordering,
      (select string_agg(format('($1[%s])::%s', i, t), ', ' order by i) from unnest(types) with ordinality u (t, i))) end, ordering);
  reached text := format('array[%s]', (select string_agg(format('(%s)::text', trunkline._hook_key_part(c, t)), ', ' order by i)
                                         from unnest(columns, types) with ordinality u (c, t, i)));
  matches text := coalesce(attached.condition, 'true');
begin
  return format($sql$
    select array_agg(s.key order by s.place) filter (where s.wanted) as keys, (array_agg(s.reached::text order by s.place desc))[1]::text[] as reached,
           array_agg(s.shard order by s.place) filter (where s.wanted) as shards, count(*) as n
      from (%s) s $sql$,
    case when carefully then format($sql$
        select r.key, j.shard, r.reached, r.place, j.wanted
          from (select r.*::%s as it, %s as key, %s as reached, row_number() over (order by %s) as place from %s) r
          cross join lateral trunkline._tube_judge(r.it, %L, %L) j $sql$,
        trunkline._hook_name(attached.relation), trunkline._hook_key(attached.key_columns, attached.key_types), reached, ordering, rows_,
        trunkline._tube_shard(attached), matches)
      else format($sql$
        select %s as key, %s as shard, %s as reached, row_number() over (order by %s) as place, (%s) as wanted
          from (select r.* from %s) r $sql$,
        trunkline._hook_key(attached.key_columns, attached.key_types), trunkline._tube_shard(attached), reached, ordering, matches, rows_) end);
end $$;
select trunkline._access('_tube_backfill_query(trunkline.tube_backfill, trunkline.tube_table, boolean)', 'reader');
