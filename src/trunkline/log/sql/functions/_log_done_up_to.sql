/* The last offset of a partition that a group is done with, by its cursor: -1 stands for all before the first that can be read, see log_seek();
   without a cursor the partition was added after the group was made, and nothing of it is done. */
create or replace function trunkline._log_done_up_to(part trunkline.log_partition, cursor_up_to bigint)
returns bigint language sql stable as $$
  select case when cursor_up_to = -1 then trunkline._log_first(part) - 1 else coalesce(cursor_up_to, 0) end;
$$;
