/* broker_fetch for many handlers at once: a lane of a handler per place of the arrays, and rows with that place.  A place that
   broker_fetch would refuse has a row with nothing else in it.  Reads only. */
create or replace function trunkline._broker_fetch_many(group_names text[], handlers text[], lanes int[], after bigint[], most int[])
returns table (place int, up_to bigint, event_position bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz, subscriptions bigint[], blocked boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  places int[];
  readers trunkline.broker_handler[];
  allowed text[] := trunkline._broker_groups_for(group_names);
begin
  -- offset 0: each is looked up by its key, whatever the planner knows of the tables
  select array_agg(a.place), array_agg(h.reader) into places, readers
    from unnest(group_names, handlers, lanes, after) with ordinality a (group_name, handler, lane, after, place)
    cross join lateral (select g.* from trunkline.broker_group g where g.group_name = a.group_name offset 0) g
    cross join lateral (select h as reader from trunkline.broker_handler h where h.group_id = g.group_id and h.handler = a.handler offset 0) h
   where a.group_name = any (allowed) and a.after >= g.trimmed_to and a.lane between 0 and g.lanes - 1;
  return query
    select places[f.place], f.up_to, f.event_position, f.event_id, f.topic, f.key, f.payload, f.metadata, f.at, f.subscriptions, f.blocked
      from trunkline._broker_ahead(readers, array(select lanes[p] from unnest(places) p), array(select after[p] from unnest(places) p), array(select most[p] from unnest(places) p)) f
    union all
    select r.place, null, null, null, null, null, null, null, null, null, null
      from generate_subscripts(group_names, 1) r (place) where r.place <> all (coalesce(places, '{}'));
end $$;
select trunkline._access('_broker_fetch_many(text[], text[], int[], bigint[], int[])', 'reader');
