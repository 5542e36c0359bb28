/* What is wrong with a secret, NULL when nothing is.  Never repeats it. */
create or replace function trunkline._webhook_secret_fault(secret text)
returns text language plpgsql immutable as $$
declare
  bare text := regexp_replace(secret, '^whsec_', '');
begin
  if bare !~ '^[A-Za-z0-9+/]+={0,2}$' or length(rtrim(bare, '=')) % 4 = 1 then
    return 'a secret is base64, with or without "whsec_" before it.';
  elsif length(rtrim(bare, '=')) * 3 / 4 not between 24 and 64 then
    return format('a secret is base64 of 24 to 64 bytes, got one of %s bytes.', length(rtrim(bare, '=')) * 3 / 4);
  end if;
  return null;
end $$;
