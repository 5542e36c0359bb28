/* Compile one object of the JSON form: all its members must hold.  TL422. */
create or replace function trunkline._condition_part(form jsonb, constants jsonb, depth int)
returns trunkline.broker_condition_part language plpgsql as $$
declare
  part trunkline.broker_condition_part;
  whole trunkline.broker_condition_part := (null, constants, '{}', '{}');
  parts text[] := '{}';
  member record;
begin
  if jsonb_typeof(form) <> 'object' then
    raise exception using errcode = 'TL422', message = format('a condition is a JSON object, got %s.', left(form::text, 80));
  elsif depth > 20 then
    raise exception using errcode = 'TL422', message = 'the condition is nested deeper than 20 levels.';
  end if;
  for member in select w.* from jsonb_each(form) f cross join lateral trunkline._condition_members(f.key, f.value) w loop
    part := case
      when member.word = 'topic' then trunkline._condition_topics(member.value, whole.constants)
      when member.word in ('and', 'or', 'not') then trunkline._condition_logic(member.word, member.value, whole.constants, depth)
      else trunkline._condition_compare(member.word, member.path, member.value, whole.constants) end;
    parts := parts || part.expression;
    whole.constants := part.constants;
    whole.event_keys := whole.event_keys || part.event_keys;
    whole.subscription_keys := whole.subscription_keys || part.subscription_keys;
  end loop;
  whole.expression := case cardinality(parts) when 0 then 'true' when 1 then parts[1] else format('(%s)', array_to_string(parts, ' and ')) end;
  return whole;
end $$;
