/* Whether something can be added to what a field holds, or it can be added itself: a number that no sum makes too large for a number; NULL when there is no field. */
create or replace function trunkline._kv_addable(number jsonb)
returns boolean language sql immutable as $$
  select case when number is null then null when jsonb_typeof(number) <> 'number' then false
              else abs(number::numeric) < 1e100 and scale(number::numeric) <= 100 end;
$$;
