/* Positions in a range whose event may be of one of some topics (NULL: of any), lowest first: told by the tags of
   ticks, which are hashes.  TL410 when ticks of the range have left. */
create or replace function trunkline._event_positions(from_position bigint, to_position bigint, topics text[], max_events int)
returns table (up_to bigint) language plpgsql stable set enable_seqscan = off set jit = off as $$
declare
  asked bigint[] := (select array_agg(hashtextextended(w.topic, 0)) from unnest(topics) w (topic));
  first_tick bigint := (select t.first_position from trunkline.tick t
                         where t.sequence = 'event' and t.first_position <= from_position order by t.first_position desc limit 1);
begin
  if first_tick is null and from_position <= to_position then
    perform trunkline._event_left(from_position);
  end if;
  return query
    select t.first_position + u.ordinal - 1
      from trunkline.tick t cross join lateral unnest(t.tags) with ordinality u (tag, ordinal)
     where t.sequence = 'event' and t.first_position between first_tick and to_position
       and (topics is null or u.tag = any (asked))
       and t.first_position + u.ordinal - 1 between from_position and to_position
     order by t.first_position, u.ordinal limit max_events;
end $$;
