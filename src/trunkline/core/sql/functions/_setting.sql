/* A setting as text; the caller casts it. */
create or replace function trunkline._setting(name text)
returns text language sql stable as $$
  select c.value from trunkline.config c where c.name = $1;
$$;
