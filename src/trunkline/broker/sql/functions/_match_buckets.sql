/* The bucket of each of the events at hand, by its place: of those given, or, when that is NULL, of those that were laid
   down. */
create or replace function trunkline._match_buckets(batch trunkline.broker_match_event[])
returns int[] language plpgsql as $$
declare
  known record;
begin
  if batch is null then
    select array_agg(b.bucket order by b.place) as buckets, array_agg(b.place order by b.place) as places, max(b.place) as last_place into known
      from (select l.place, (hashtextextended(coalesce(l.key, l.topic), 0) & 63)::int as bucket from pg_temp.trunkline_batch l) b;
    if cardinality(known.places) < known.last_place then  -- some have left: they have no bucket
      return (select array_agg(coalesce(u.bucket, 0) order by p.place)
                from generate_series(1, known.last_place) p (place) left join unnest(known.places, known.buckets) u (place, bucket) using (place));
    end if;
    return known.buckets;
  end if;
  return (select array_agg((hashtextextended(coalesce(b.key, b.topic), 0) & 63)::int order by b.place) from unnest(batch) b);
end $$;
