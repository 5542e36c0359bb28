/* The address that a host is, NULL for a name.  Every spelling that systems take for one is read: 2852039166, 0xa9fea9fe, 0251.0376.0251.0376,
   169.254.43518.  Errors: 22P02 for a host that ends in a number, or has a colon, and is no address. */
create or replace function trunkline._webhook_literal(host text)
returns inet language plpgsql immutable as $$
declare
  parts text[] := string_to_array(host, '.');
  count int := cardinality(parts);
  total bigint := 0;
  number numeric;
  digits text;
begin
  if host ~ ':' then
    return host::inet;
  elsif parts[count] !~ '^([0-9]+|0x[0-9a-f]*)$' then
    return null;
  elsif count > 4 or length(host) > 80 then
    raise invalid_text_representation;
  end if;
  for place in 1 .. count loop
    number := 0;
    digits := substring(parts[place] from '^0x([0-9a-f]*)$');
    if digits is not null then
      select coalesce(sum((strpos('0123456789abcdef', d) - 1) * 16::numeric ^ (length(digits) - n)), 0) into number from unnest(string_to_array(digits, null)) with ordinality u (d, n);
    elsif parts[place] ~ '^0[0-7]*$' then
      select sum(d::int * 8::numeric ^ (length(parts[place]) - n)) into number from unnest(string_to_array(parts[place], null)) with ordinality u (d, n);
    elsif parts[place] ~ '^[1-9][0-9]*$' then
      number := parts[place]::numeric;
    else
      raise invalid_text_representation;
    end if;
    if number >= (case when place < count then 256 else 256::numeric ^ (5 - count) end) then
      raise invalid_text_representation;
    end if;
    total := total + (number * case when place < count then 256::numeric ^ (4 - place) else 1 end)::bigint;
  end loop;
  return '0.0.0.0'::inet + total;
end $$;
