/* Are these the headers of n messages: a JSON array of n objects or nulls? */
create or replace function trunkline._log_headers_whole(headers bytea, n int)
returns boolean language plpgsql immutable as $$
declare
  list jsonb;
begin
  list := convert_from(headers, 'UTF8');
  return jsonb_typeof(list) = 'array' and jsonb_array_length(list) = n
     and not exists (select from jsonb_array_elements(list) e where jsonb_typeof(e) not in ('object', 'null'));
exception when untranslatable_character then
  raise exception using errcode = 'TL422', message = format('the headers cannot be kept: %s.', sqlerrm),
    hint = 'SQL reads them as jsonb, in the encoding of the database.';
when data_exception or program_limit_exceeded then
  return false;  -- not JSON, or none that Postgres can hold
end $$;
