/* The type of an element, of an array; otherwise the type itself. */
create or replace function trunkline._live_element(type text, is_array boolean)
returns text language sql immutable as $$
  select case when is_array then regexp_replace(type, E'(\\[\\])+$', '') else type end;
$$;
