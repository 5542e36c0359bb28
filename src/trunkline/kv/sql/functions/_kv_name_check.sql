/* TL422 unless a name of the parade is one. */
create or replace function trunkline._kv_name_check(kind text, name text)
returns void language plpgsql immutable as $$
begin
  if name is null or name !~ '^[A-Za-z0-9._-]{1,63}$' then
    raise exception using errcode = 'TL422', message = format('a %s has 1 to 63 letters, digits, ".", "_" or "-", got %s.', kind, coalesce('"' || left(name, 80) || '"', 'NULL'));
  end if;
end $$;
