/* A time as text that does not depend on the settings of the session: an expression over one that gives it. */
create or replace function trunkline._hook_key_time(value text, zoned boolean)
returns text language sql immutable as $$
  select format(case when zoned then $e$case when isfinite(%1$s) then to_jsonb(%1$s at time zone 'UTC') #>> '{}' || 'Z' else %1$s::text end$e$
                     else $e$to_jsonb(%1$s) #>> '{}'$e$ end, value);
$$;
select trunkline._access('_hook_key_time(text, boolean)', 'reader');
