/* Do events and deliveries take more than broker.hold_bytes when all from a position on stay? */
create or replace function trunkline._broker_hold_full(keep_from bigint)
returns boolean language sql stable as $$
  select case when m.most > 0 then trunkline._broker_held_bytes(keep_from) > m.most else false end
    from (select trunkline._setting('broker.hold_bytes')::bigint as most offset 0) m;
$$;
