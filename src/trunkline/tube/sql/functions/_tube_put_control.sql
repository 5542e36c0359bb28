/* Store a control entry for an attachment; a table whose rows compute their shard gets one for every lane, whose
   number is held until commit. */
create or replace function trunkline._tube_put_control(attached trunkline.tube_table, control text, payload jsonb, priority int)
returns void language plpgsql as $$
declare
  shards int[] := array[attached.shard];
begin
  if attached.shard is null then
    shards := array(select generate_series(0, (trunkline._tube_hold(attached.tube_id)).lanes - 1));
  end if;
  insert into trunkline.tube_entry (slot, xid_space, xid, seq, tube_id, attachment, shard, priority, op, keys, payload, control, at)
  select trunkline._ring_current('tube_entry'), trunkline._xid_space(), pg_current_xact_id(), nextval('trunkline.tube_seq'),
         attached.tube_id, attached.attachment, s.shard, _tube_put_control.priority, 'T', '{}', _tube_put_control.payload, _tube_put_control.control, clock_timestamp()
    from unnest(shards) s (shard);
end $$;
