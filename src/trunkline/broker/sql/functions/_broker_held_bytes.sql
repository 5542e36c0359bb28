/* How many bytes the events from a position on take, and the deliveries that may not leave yet. */
create or replace function trunkline._broker_held_bytes(keep_from bigint)
returns bigint language sql stable as $$
  select coalesce(sum(pg_total_relation_size(to_regclass(format('trunkline.%I', s.ring || '_' || s.slot)))), 0)::bigint
    from trunkline.ring_slot s
   where s.ring = 'delivery' and s.free_since is null
      or s.ring = 'event' and (s.left_at is null or s.up_to is null or s.up_to >= keep_from);
$$;
