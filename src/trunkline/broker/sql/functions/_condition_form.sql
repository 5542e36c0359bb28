/* The JSON form that a text holds; {} for NULL and for nothing at all.  TL422 when it is not JSON. */
create or replace function trunkline._condition_form(condition text)
returns jsonb language plpgsql as $$
begin
  return coalesce(nullif(btrim(condition, E' \t\r\n'), ''), '{}')::jsonb;
exception when data_exception or program_limit_exceeded then
  raise exception using errcode = 'TL422', message = format('%s is not JSON: %s.', quote_literal(left(condition, 200)), sqlerrm),
    hint = 'Write a JSON object, or a boolean expression in SQL.';
end $$;
