/* How many bytes an event has as JSON text; NULL when that is more than a value of Postgres may have. */
create or replace function trunkline._event_text_bytes(payload jsonb, metadata jsonb)
returns bigint language plpgsql stable as $$
begin
  return octet_length(payload::text)::bigint + coalesce(octet_length(metadata::text), 0);
exception when program_limit_exceeded or internal_error then
  return null;
end $$;
