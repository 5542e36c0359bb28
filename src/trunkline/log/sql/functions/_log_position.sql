/* Where a group stands on a partition: the last offset it is done with.  A partition that was added after
   the group was made starts at its first offset, archived or not. */
create or replace function trunkline._log_position(part trunkline.log_partition, group_name text)
returns bigint language sql stable as $$
  select coalesce(
    (select (trunkline._cursor_latest(k.cursor_id)).up_to from trunkline.cursor_key k
      where k.resource = trunkline._log_resource(part.topic_id, $2, part.partition)),
    trunkline._log_first(part) - 1);
$$;
