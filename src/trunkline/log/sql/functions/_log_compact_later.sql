/* Make the table log_compact_<later>: the highest offset of each key in these segments.  Returns those that are
   still there: retention may have dropped some. */
create or replace function trunkline._log_compact_later(segments trunkline.log_segment[], later bigint)
returns trunkline.log_segment[] language plpgsql as $$
declare
  segment trunkline.log_segment;
  present trunkline.log_segment[] := '{}';
begin
  execute format('create unlogged table trunkline.log_compact_%s (key bytea, log_offset bigint)', later);
  foreach segment in array segments loop
    begin
      execute format($sql$
        insert into trunkline.log_compact_%1$s
        select m.key, max(m.log_offset) from trunkline.log_segment_%2$s b
          cross join lateral trunkline._log_messages(b.base_offset, b.n, b.value_ends, b.payload, b.value_valid, b.key_ends, b.keys, b.key_valid, b.deltas, null) m
         group by m.key $sql$, later, segment.segment_id);
      present := present || segment;
    exception when undefined_table then
      null;
    end;
  end loop;
  execute format('delete from trunkline.log_compact_%1$s l using (
      select x.key, max(x.log_offset) as log_offset from trunkline.log_compact_%1$s x group by x.key) top
     where top.key = l.key and l.log_offset < top.log_offset', later);
  return present;
end $$;
