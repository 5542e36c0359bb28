/* Where a dead letter stood in its topic and since when, whatever the time zone of the session. */
create or replace function trunkline._log_dead_origin(log_offset bigint, at timestamptz)
returns jsonb language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object('offset', log_offset, 'at', to_jsonb(at at time zone 'UTC') #>> '{}' || 'Z'));
$$;
