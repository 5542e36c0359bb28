/* A key column of a row r: an expression whose text does not depend on the settings of the session that writes. */
create or replace function trunkline._hook_key_part(name text, type text)
returns text language sql immutable as $$
  select case
    when type ~ '^timestamp.* with time zone$'
      then format($e$case when isfinite(r.%1$I) then to_jsonb(r.%1$I at time zone 'UTC') #>> '{}' || 'Z' else r.%1$I::text end$e$, name)
    when type ~ '^timestamp' or type = 'date' then format($e$to_jsonb(r.%I) #>> '{}'$e$, name)
    when type = 'bytea' then format($e$chr(92) || 'x' || encode(r.%I, 'hex')$e$, name)
    when type = 'jsonb' or type like '%[]' then format('r.%I::text', name)  -- in a JSON array they would not be texts
    else format('r.%I', name) end;
$$;
select trunkline._access('_hook_key_part(text, text)', 'reader');
