/* Rings with their slots, size, and who holds rotation back. */
create or replace function trunkline.ring_list()
returns table (ring text, current int, slots int, used int, bytes bigint, rotated_at timestamptz, held_since timestamptz, held_by text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select r.ring, r.current, greatest(trunkline._setting(format('ring.%s.slots', r.ring))::int, max(s.slot) filter (where s.left_at is not null or s.slot = r.current) + 1),
         count(*) filter (where pg_relation_size(to_regclass(format('trunkline.%I', r.ring || '_' || s.slot))) > 0)::int,
         sum(pg_total_relation_size(to_regclass(format('trunkline.%I', r.ring || '_' || s.slot))))::bigint,
         r.rotated_at, r.held_since, r.held_by
    from trunkline.ring r join trunkline.ring_slot s using (ring) group by r.ring order by r.ring;
$$;
comment on function trunkline.ring_list() is 'Rings with their slots, size, and who holds rotation back.';
select trunkline._access('ring_list()', 'reader');
