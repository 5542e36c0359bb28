/* Compile "and", "or" and "not" of the JSON form.  TL422. */
create or replace function trunkline._condition_logic(word text, forms jsonb, constants jsonb, depth int)
returns trunkline.broker_condition_part language plpgsql as $$
declare
  part trunkline.broker_condition_part;
  whole trunkline.broker_condition_part := (null, constants, '{}', '{}');
  parts text[] := '{}';
  form jsonb;
begin
  if word = 'not' then
    part := trunkline._condition_part(forms, constants, depth + 1);
    part.expression := format('(not %s)', part.expression);
    part.event_keys := '{}';
    part.subscription_keys := '{}';
    return part;
  elsif jsonb_typeof(forms) <> 'array' or forms = '[]' then
    raise exception using errcode = 'TL422', message = format('"%s" is a list of conditions, not empty, got %s.', word, left(forms::text, 80));
  end if;
  for form in select f from jsonb_array_elements(forms) f loop
    part := trunkline._condition_part(form, whole.constants, depth + 1);
    parts := parts || part.expression;
    whole.constants := part.constants;
    if word = 'and' then
      whole.event_keys := whole.event_keys || part.event_keys;
      whole.subscription_keys := whole.subscription_keys || part.subscription_keys;
    end if;
  end loop;
  whole.expression := format('(%s)', array_to_string(parts, format(' %s ', word)));
  return whole;
end $$;
