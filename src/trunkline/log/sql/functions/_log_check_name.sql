/* Names of topics and groups: 1 to 200 letters, digits and . _ - only. */
create or replace function trunkline._log_check_name(kind text, name text)
returns void language plpgsql immutable as $$
begin
  if name is null or name !~ '^[A-Za-z0-9._-]{1,200}$' then
    raise exception using errcode = 'TL422', message = format('a %s name has 1 to 200 letters, digits, ".", "_" or "-", got %s.', kind, coalesce(quote_literal(left(name, 80)), 'NULL')),
      detail = jsonb_build_object(kind, left(name, 80))::text;
  end if;
end $$;
