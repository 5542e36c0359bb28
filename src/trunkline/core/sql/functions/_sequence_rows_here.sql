/* What _sequence_rows() answers when the current slot of ticks, which the caller names, holds the position; otherwise
   nothing.  Ticks of the current slot are later than all others: see _tick_still().
   In order, for callers without enable_sort: then ticks are found by position, whatever the planner believes of the slot. */
create or replace function trunkline._sequence_rows_here(sequence text, slot int, from_position bigint, max_rows int)
returns table (up_to bigint, xid xid8, seq bigint) language sql stable as $$
  select t.first_position + u.ordinal - 1, u.xid, u.seq
    from (select t.first_position, t.xids, t.seqs from trunkline.tick t
           where t.slot = $2 and t.sequence = $1
             and t.first_position >= (select b.first_position from trunkline.tick b
                   where b.slot = $2 and b.sequence = $1 and b.first_position <= $3 order by b.first_position desc limit 1)
             and t.first_position < $3 + $4
           order by t.first_position offset 0) t, unnest(t.xids, t.seqs) with ordinality u (xid, seq, ordinal)
   where t.first_position + u.ordinal - 1 >= $3
   order by 1 limit $4;
$$;
