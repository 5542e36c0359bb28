/* Is an object that is given for a column of type jsonb one of operators, or the value itself? */
create or replace function trunkline._live_asks(value jsonb)
returns boolean language sql immutable as $$
  select jsonb_typeof(value) = 'object' and value <> '{}' and not exists (select from jsonb_object_keys(value) k where k <> 'eq');
$$;
