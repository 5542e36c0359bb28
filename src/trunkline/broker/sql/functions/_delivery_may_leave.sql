/* A slot of deliveries may leave when nobody needs them. */
create or replace function trunkline._delivery_may_leave(ring text, slot int)
returns boolean language sql stable as $$
  select false;
$$;
