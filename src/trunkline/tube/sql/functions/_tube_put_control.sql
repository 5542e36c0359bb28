/* Store a control entry for an attachment; a table whose rows compute their shard gets one for every lane. */
create or replace function trunkline._tube_put_control(attached trunkline.tube_table, control text, payload jsonb, priority int)
returns void language plpgsql as $$
begin
  insert into trunkline.tube_entry (slot, xid_space, xid, seq, tube_id, attachment, shard, priority, op, keys, payload, control, at)
  select trunkline._ring_current('tube_entry'), (trunkline._incarnation_row()).xid_space, pg_current_xact_id(), nextval('trunkline.tube_seq'),
         attached.tube_id, attached.attachment, s.shard, _tube_put_control.priority, 'T', '{}', _tube_put_control.payload, _tube_put_control.control, clock_timestamp()
    from (select attached.shard where attached.shard is not null
          union all
          select lane from trunkline.tube t, generate_series(0, t.lanes - 1) lane
           where t.tube_id = attached.tube_id and attached.shard is null) s (shard);
end $$;
