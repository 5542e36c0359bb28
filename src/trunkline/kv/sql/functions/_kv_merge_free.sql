/* Merge the states of keys that no open transaction holds.  Returns how many keys changed, and the states of keys that have to wait.
   Locks keys in their order.  patient: wait up to half a second first, as for other pullers; else leave out rows that are locked now.
   A key that an open transaction makes is not visible: it is found by halving.  After about a second the rest waits untried. */
create or replace function trunkline._kv_merge_free(states jsonb, via bigint, patient boolean, out applied int, out waiting jsonb)
language plpgsql set lock_timeout = '500ms' as $$
declare
  parts jsonb[] := array[states];
  part jsonb;
  until timestamptz;
  skipped jsonb;
  half int;
begin
  applied := 0;
  waiting := '[]';
  while cardinality(parts) > 0 loop
    part := parts[cardinality(parts)];
    parts := trim_array(parts, 1);
    if until is not null or patient then
      begin
        applied := applied + trunkline._kv_merge(part, via);
        continue;
      exception when lock_not_available or deadlock_detected then null;
      end;
    end if;
    if until is null then  -- the first round: look once which rows are locked
      perform set_config('lock_timeout', '50ms', true);
      until := clock_timestamp() + interval '1 second';
      select coalesce(jsonb_agg(l.state) filter (where l.is_locked), '[]'), coalesce(jsonb_agg(l.state) filter (where not l.is_locked), '[]')
        into skipped, part from trunkline._kv_locked(part) l;
      waiting := waiting || skipped;
      parts := parts || part;
    elsif jsonb_array_length(part) = 1 or clock_timestamp() > until then
      waiting := waiting || part;
    else
      half := jsonb_array_length(part) / 2;
      parts := parts || jsonb_path_query_array(part, '$[$half to last]', jsonb_build_object('half', half))
                     || jsonb_path_query_array(part, '$[0 to $last_one]', jsonb_build_object('last_one', half - 1));
    end if;
  end loop;
end $$;
