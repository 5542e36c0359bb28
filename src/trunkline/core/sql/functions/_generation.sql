/* The rank of a life of the server among those before it, 1 to 32767, for stores that keep a version in 63 bits: a later one has a higher
   rank.  It counts days from 2026 on where these are more, so that who goes on from a backup outranks what others made of it. */
create or replace function trunkline._generation(incarnation int)
returns int language sql stable as $$
  select least(max(coalesce(l.generation, greatest((l.began_at at time zone 'UTC')::date - date '2026-01-01', 1)) + l.later), 32767)::int
    from (select i.generation, i.began_at, row_number() over (order by i.incarnation desc) - 1 as later
            from trunkline.incarnation i where i.incarnation <= _generation.incarnation) l;
$$;
