/* Numbered rows from a position on: where they are in the source.  When from_position has left already, the first
   row has a higher one: the caller compares.
   In order, for callers without enable_sort: then ticks are found by position, whatever the planner believes of the slots. */
create or replace function trunkline._sequence_rows(sequence text, from_position bigint, max_rows int)
returns table (up_to bigint, xid xid8, seq bigint) language sql stable as $$
  with first_tick as (
    select coalesce(
      (select t.first_position from trunkline.tick t
        where t.sequence = $1 and t.first_position <= $2 order by t.first_position desc limit 1),
      (select min(t.first_position) from trunkline.tick t where t.sequence = $1)) as first_position)
  select t.first_position + u.ordinal - 1, u.xid, u.seq
    from (select t.first_position, t.xids, t.seqs from first_tick f, trunkline.tick t
           where t.sequence = $1 and t.first_position >= f.first_position
             and t.first_position < greatest($2, f.first_position) + $3  -- positions have no gaps
           order by t.first_position offset 0) t, unnest(t.xids, t.seqs) with ordinality u (xid, seq, ordinal)
   where t.first_position + u.ordinal - 1 >= $2
   order by 1 limit $3;
$$;
