/* Compile the topics of the JSON form: one, or a list of which one must fit; exact ones or patterns.  TL422. */
create or replace function trunkline._condition_topics(topics jsonb, constants jsonb)
returns trunkline.broker_condition_part language plpgsql as $$
declare
  list jsonb := case jsonb_typeof(topics) when 'array' then topics else jsonb_build_array(topics) end;
  exact jsonb;
  pattern text;
  part trunkline.broker_condition_part := (null, constants, '{}', '{}');
  parts text[] := '{}';
  place int;
begin
  if list = '[]' or list @? '$[*] ? (@.type() != "string")' then
    raise exception using errcode = 'TL422', message = format('"topic" is a string or a list of strings, not empty, got %s.', left(topics::text, 80)),
      hint = 'Leave it out, or write "#", for every topic.';
  end if;
  perform trunkline._topic_regex(t) from jsonb_array_elements_text(list) t;
  select coalesce(jsonb_agg(distinct t), '[]') into exact from jsonb_array_elements_text(list) t where t !~ '[*#]';
  if jsonb_array_length(exact) = jsonb_array_length(list) and jsonb_array_length(exact) = 1 then
    return trunkline._condition_compare('eq', 'topic', exact -> 0, constants);
  elsif exact <> '[]' then
    part := trunkline._condition_compare('in', 'topic', exact, constants);
    parts := array[part.expression];
  end if;
  for pattern in select distinct t from jsonb_array_elements_text(list) t where t ~ '[*#]' order by t loop
    place := jsonb_array_length(part.constants);
    -- the beginning without wildcards is compared first: that is cheap
    part.constants := part.constants || jsonb_build_array(regexp_replace(substring(pattern from '^[^*#]*#?'), E'\\.?#$', ''), trunkline._topic_regex(pattern));
    parts := parts || format('(starts_with(e.topic, (s.params #>> ''{c,%s}''::text[])) and e.topic ~ (s.params #>> ''{c,%s}''::text[]))', place, place + 1);
  end loop;
  part.expression := format('(%s)', array_to_string(parts, ' or '));
  return part;
end $$;
