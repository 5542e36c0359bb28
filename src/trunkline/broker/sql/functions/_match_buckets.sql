/* The bucket of each of the events at hand, by its place: of those given, or, when that is NULL, of those that were laid
   down. */
create or replace function trunkline._match_buckets(batch trunkline.broker_match_event[])
returns int[] language plpgsql as $$
declare
  known record;
begin
  if batch is null then
    select array_agg(trunkline._event_bucket(b.key, b.topic) order by b.place) as buckets, max(b.place) as last_place into known
      from pg_temp.trunkline_batch b;
    if cardinality(known.buckets) < known.last_place then  -- some have left: they have no bucket
      return (select array_agg(coalesce(trunkline._event_bucket(b.key, b.topic), 0) order by p.place)
                from generate_series(1, known.last_place) p (place) left join pg_temp.trunkline_batch b using (place));
    end if;
    return known.buckets;
  end if;
  return (select array_agg(trunkline._event_bucket(b.key, b.topic) order by b.place) from unnest(batch) b);
end $$;
