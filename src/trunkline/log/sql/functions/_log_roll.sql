/* Seal the current segment of a partition and begin a new one.  The new table is made before the partition is
   locked, so appends wait for an update of one row only.  Returns whether it did. */
create or replace function trunkline._log_roll(topic_id int, partition int)
returns boolean language plpgsql as $$
declare
  part trunkline.log_partition;
  tail bigint;
  newest timestamptz;
  next_id bigint;
begin
  perform trunkline._lock_briefly();
  perform trunkline._isolation_check('Sealing a segment');
  next_id := trunkline._log_segment_create(topic_id, partition, 0);
  perform set_config('lock_timeout', (1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
  begin
    perform trunkline._routines_lock(shared => true);
    select p.* into part from trunkline.log_partition p
     where p.topic_id = _log_roll.topic_id and p.partition = _log_roll.partition for no key update;
    if not found then
      raise lock_not_available;  -- the topic was deleted meanwhile
    end if;
    execute format('select b.last_offset, b.at from trunkline.log_segment_%s b order by b.base_offset desc limit 1', part.segment_id) into tail, newest;
    if tail is null then
      raise lock_not_available;  -- somebody else rolled it
    end if;
    update trunkline.log_segment s set last_offset = tail, last_at = newest,
           bytes = pg_total_relation_size(to_regclass('trunkline.log_segment_' || part.segment_id))
     where s.segment_id = part.segment_id;
    update trunkline.log_segment s set first_offset = tail + 1 where s.segment_id = next_id;
    update trunkline.log_partition p set segment_id = next_id, segment_first = tail + 1, segment_at = newest, previous_id = part.segment_id
     where p.topic_id = _log_roll.topic_id and p.partition = _log_roll.partition returning p.* into part;
    perform trunkline._log_append_write(part);
    perform set_config('lock_timeout', '0', true);
    return true;
  exception when lock_not_available then
    perform set_config('lock_timeout', '0', true);
    execute format('drop table trunkline.log_segment_%s', next_id);
    delete from trunkline.log_segment s where s.segment_id = next_id;
    return false;
  end;
end $$;
