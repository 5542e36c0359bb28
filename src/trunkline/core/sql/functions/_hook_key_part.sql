/* A key column of a row r: an expression whose text does not depend on the settings of the session that writes, but for numbers
   with a floating point and intervals, for which its function has settings of its own, and for arrays of times. */
create or replace function trunkline._hook_key_part(name text, type text)
returns text language sql immutable as $$
  select case
    when type = 'jsonb' or type like '%[]' then format('r.%I::text', name)  -- in a JSON array they would not be texts
    when type ~ '^timestamp' or type = 'date' then trunkline._hook_key_time(format('r.%I', name), type ~ 'with time zone$')
    when type in ('tstzrange', 'tsrange', 'daterange') then trunkline._hook_key_range(format('r.%I', name), type = 'tstzrange')
    when type = 'bytea' then format($e$chr(92) || 'x' || encode(r.%I, 'hex')$e$, name)
    else format('r.%I', name) end;
$$;
select trunkline._access('_hook_key_part(text, text)', 'reader');
