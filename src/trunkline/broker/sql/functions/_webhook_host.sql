/* The host of the URL of a webhook: in lower case, without brackets and without a final dot. */
create or replace function trunkline._webhook_host(url text)
returns text language sql immutable as $$
  select rtrim(btrim(lower(substring($1 from E'^[A-Za-z]+://(\\[[^]]*\\]|[^/:?#]*)')), '[]'), '.');
$$;
