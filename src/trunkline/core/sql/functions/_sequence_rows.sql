/* Numbered rows from a position on: where they are in the source. */
create or replace function trunkline._sequence_rows(sequence text, from_position bigint, max_rows int)
returns table (up_to bigint, xid xid8, seq bigint) language sql stable as $$
  select t.first_position + u.ordinal - 1, u.xid, u.seq
    from (select t.* from trunkline.tick t
           where t.sequence = $1 and t.first_position >= coalesce((
             select b.first_position from trunkline.tick b
              where b.sequence = $1 and b.first_position <= $2 order by b.first_position desc limit 1), 0)
           order by t.first_position limit greatest(max_rows, 1)) t
    cross join lateral unnest(t.xids, t.seqs) with ordinality u (xid, seq, ordinal)
   where t.first_position + u.ordinal - 1 >= $2
   order by 1 limit max_rows;
$$;
