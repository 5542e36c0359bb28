/* Entries of a lane in a range of positions, in order: live ones (priority 0) or backfill (1).  Fewer rows than
   max_entries mean that the range was read to its end.  Reads only.
   Errors: TL404, TL410 entries of the range were acknowledged and have left, TL422. */
create or replace function trunkline.tube_read(
  tube text, lane int, priority int, from_position bigint, to_position bigint, max_entries int default 1000)
returns table (up_to bigint, seq bigint, attachment int, relation text, shard int, op text, keys text[], payload jsonb, control text, at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  children text;
begin
  perform trunkline._tube_may(present.tube, 'consume');
  if lane is null or lane not between 0 and present.lanes - 1 then
    perform trunkline._raise('TL422', format('tube "%s" has lanes 0 to %s, asked for %s.', tube, present.lanes - 1, coalesce(lane::text, 'NULL')));
  elsif priority is null or priority not in (0, 1) or from_position is null or to_position is null or max_entries is null or max_entries < 1 then
    perform trunkline._raise('TL422', 'priority is 0 or 1, positions are numbers, max_entries is at least 1.');
  end if;
  if from_position <= trunkline._tube_position(present, lane, priority) then
    perform trunkline._tube_check_there(present, lane, priority, from_position, to_position);
  end if;
  -- only slots that hold something: a look-up by (xid, seq) would otherwise probe every one of them
  select string_agg(format('select * from trunkline.%I', 'tube_entry_' || s.slot), ' union all ') into children
    from trunkline.ring_slot s
   where s.ring = 'tube_entry' and pg_relation_size(to_regclass(format('trunkline.%I', 'tube_entry_' || s.slot))) > 0;
  if children is null then
    return;
  end if;
  return query execute format($sql$
    select p.up_to, e.seq, e.attachment, a.relation_name, e.shard, e.op::text, e.keys, e.payload, e.control, e.at
      from (select * from trunkline._tube_positions($1, $2, $3, $4, $5) limit $6) p
      join lateral (select * from (%s) e where e.xid = p.xid and e.seq = p.seq) e on true
      left join trunkline.tube_table a on a.attachment = e.attachment
     order by p.up_to $sql$, children)
    using present, lane, priority, from_position, to_position, max_entries;
end $$;
comment on function trunkline.tube_read(text, int, int, bigint, bigint, int) is 'Entries of a lane in a range of positions, in order.';
select trunkline._access('tube_read(text, int, int, bigint, bigint, int)', 'reader');
