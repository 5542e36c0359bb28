/* Epochs up to here were given out by lives of the server before this one.  They end with it: what came after the last thing that a
   standby heard of, or a backup holds, was given out once already, the next epochs too. */
create or replace function trunkline._epoch_floor(incarnation int)
returns bigint language sql immutable as $$
  select (incarnation - 1)::bigint << 24;
$$;
