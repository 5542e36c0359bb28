/* A value of a condition as the column would have it in an event: JSON.  A text is read as the type reads it, whatever the settings of
   the caller; of an enum it must be a label.  Fails as the type does for what it cannot read. */
create or replace function trunkline._live_value(value jsonb, type text, enum oid)
returns jsonb language plpgsql stable
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = 'iso_8601' set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  answer jsonb;
begin
  if value = 'null' then
    return value;
  elsif type = 'jsonb' then
    return value;
  elsif jsonb_typeof(value) in ('object', 'array') then
    raise invalid_text_representation using message = format('%s is not a single value', left(value::text, 80));
  elsif enum is not null then
    perform trunkline._live_rank(enum, value #>> '{}');
    return to_jsonb(value #>> '{}');
  end if;
  execute format('select to_jsonb(cast($1 as %s))', type) into answer using value #>> '{}';
  return answer;
end $$;
