/* The first offset of a partition that can be read without a gap, archived or not. */
create or replace function trunkline._log_first(part trunkline.log_partition)
returns bigint language sql stable as $$
  select case when part.first_offset > 1 and trunkline._log_archived_last(part) >= part.first_offset - 1
              then least(part.first_offset, trunkline._log_archived_first(part)) else part.first_offset end;
$$;
