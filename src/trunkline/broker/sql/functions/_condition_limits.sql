/* Refuse a condition or params that are too large (TL413), and params that are no JSON object (TL422). */
create or replace function trunkline._condition_limits(condition text, params jsonb)
returns void language plpgsql stable as $$
declare
  most int := trunkline._setting('broker.condition_bytes')::int;
  most_params int := trunkline._setting('broker.payload_bytes')::int;
begin
  if octet_length(condition) > most then
    raise exception using errcode = 'TL413', message = format('a condition has at most %s bytes, this one has %s.', most, octet_length(condition)),
      hint = 'Put what varies into params, or raise the setting broker.condition_bytes.', detail = jsonb_build_object('bytes', octet_length(condition), 'most', most)::text;
  elsif params is null or jsonb_typeof(params) <> 'object' then
    raise exception using errcode = 'TL422', message = format('params are a JSON object, got %s.', coalesce(left(params::text, 80), 'NULL'));
  elsif octet_length(params::text) > most_params then
    raise exception using errcode = 'TL413', message = format('params have at most %s bytes, these have %s.', most_params, octet_length(params::text)),
      hint = 'Keep large lists in a table, or raise the setting broker.payload_bytes.', detail = jsonb_build_object('bytes', octet_length(params::text), 'most', most_params)::text;
  end if;
end $$;
