/* The same of a range of times. */
create or replace function trunkline._hook_key_range(value text, zoned boolean)
returns text language sql immutable as $$
  select format($e$case when isempty(%1$s) then 'empty' else concat(case when lower_inc(%1$s) then '[' else '(' end, %2$s, ',', %3$s, case when upper_inc(%1$s) then ']' else ')' end) end$e$,
    value, trunkline._hook_key_time(format('lower(%s)', value), zoned), trunkline._hook_key_time(format('upper(%s)', value), zoned));
$$;
select trunkline._access('_hook_key_range(text, boolean)', 'reader');
