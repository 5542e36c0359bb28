/* The SQL of a place in an event: "topic", "key", "payload", "metadata", or a path into one of the last two, as in
   "payload.customer.id"; names with dots are written as JSON, as in ["payload", "a.b"].  TL422. */
create or replace function trunkline._condition_path(path text, out value text, out is_text boolean)
language plpgsql as $$
declare
  parts text[];
begin
  if path in ('topic', 'key') then
    value := 'e.' || path;
    is_text := true;
    return;
  end if;
  begin
    parts := case when path ~ E'^\\s*\\[' then array(select jsonb_array_elements_text(path::jsonb)) else string_to_array(path, '.') end;
  exception when data_exception then
    parts := null;
  end;
  if parts[1] in ('payload', 'metadata') and array_position(parts, null) is null and (path ~ E'^\\s*\\[' or array_position(parts, '') is null) then
    value := case when cardinality(parts) = 1 then 'e.' || parts[1] else format('(e.%s #> %L::text[])', parts[1], parts[2:]) end;
    is_text := false;
  else
    raise exception using errcode = 'TL422', message = format('%s is not a place in an event.', coalesce(quote_literal(left(path, 80)), 'NULL')),
      hint = 'Write "topic", "key", "payload", "metadata", or a path as in "payload.customer.id"; names with dots as in ["payload", "a.b"].';
  end if;
end $$;
