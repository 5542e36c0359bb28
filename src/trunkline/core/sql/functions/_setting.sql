/* A setting as text; the caller casts it. */
create or replace function trunkline._setting(name text)
returns text language plpgsql stable as $$
begin
  return (select c.value from trunkline.config c where c.name = _setting.name);
end $$;
