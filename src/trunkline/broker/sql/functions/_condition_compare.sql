/* Compile one comparison of the JSON form: the SQL, true or false for every event, and the constants with the one it
   reads.  op is eq, in, contains, gt, gte, lt or lte.  Where it says that something is equal, both sides as keys.  TL422. */
create or replace function trunkline._condition_compare(op text, path text, constant jsonb, constants jsonb)
returns trunkline.broker_condition_part language plpgsql as $$
declare
  place record := trunkline._condition_path(path);
  read text := format('(s.params #%s ''{c,%s}''::text[])', case when place.is_text and op <> 'in' then '>>' else '>' end, jsonb_array_length(constants));
  kind text := jsonb_typeof(constant);
  wanted text := case
    when op = 'in' and place.is_text and not (kind = 'array' and constant <> '[]' and not constant @? '$[*] ? (@.type() != "string")') then 'a list of strings, not empty'
    when op = 'in' and not (kind = 'array' and constant <> '[]' and not constant @? 'strict $[*] ? (@.type() == "object" || @.type() == "array")') then 'a list of strings, numbers, booleans and nulls, not empty'
    when op = 'eq' and path = 'topic' and kind <> 'string' then 'a string'
    when op = 'eq' and path = 'key' and kind not in ('string', 'null') then 'a string or null'
    when op = 'contains' and place.is_text then 'used with payload and metadata'
    when op in ('gt', 'gte', 'lt', 'lte') and place.is_text and kind <> 'string' then 'a string'
    when op in ('gt', 'gte', 'lt', 'lte') and kind not in ('string', 'number') then 'a string or a number' end;
  part trunkline.broker_condition_part;
begin
  if wanted is not null then
    raise exception using errcode = 'TL422', message = format('"%s" of "%s" is %s, got %s.', op, path, wanted, left(constant::text, 80));
  end if;
  part.constants := constants || jsonb_build_array(constant);
  part.event_keys := '{}';
  part.subscription_keys := '{}';
  if op = 'eq' and place.is_text and kind = 'null' then
    part.expression := format('(%s is null)', place.value);
    part.constants := constants;
    return part;
  end if;
  part.expression := format('((%s) is true)', case
    when op = 'eq' then format('%s = %s', place.value, read)
    when op = 'in' and place.is_text then format('%s ? %s', read, place.value)
    when op = 'in' then format('jsonb_typeof(%s) <> all (''{array,object}''::text[]) and %s @> %s', place.value, read, place.value)
    when op = 'contains' then format('%s @> %s', place.value, read)
    when place.is_text then format('%s %s %s', place.value, trunkline._condition_operator(op), read)
    else format('jsonb_typeof(%s) = %L and %s %s %s', place.value, kind, place.value, trunkline._condition_operator(op), read) end);
  if op = 'eq' then
    part.event_keys := array[place.value];
    part.subscription_keys := array[read];
  end if;
  return part;
end $$;
