/* The last tick of a sequence. */
create or replace function trunkline._tick_latest(sequence text)
returns trunkline.tick language sql stable as $$
  select t.* from trunkline.tick t where t.sequence = $1 order by t.tick desc limit 1;
$$;
