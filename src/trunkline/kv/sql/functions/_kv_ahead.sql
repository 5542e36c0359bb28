/* How far this clock is ahead of most others, where that is too far and was heard within five minutes; NULL otherwise.  What was noted by a clock
   that has been set back since does not hold. */
create or replace function trunkline._kv_ahead()
returns interval language sql stable as $$
  select c.ahead from trunkline.kv_clock c
   where c.ahead > trunkline._setting('kv.max_skew')::interval and c.ahead_at between clock_timestamp() - interval '5 minutes' and clock_timestamp();
$$;
