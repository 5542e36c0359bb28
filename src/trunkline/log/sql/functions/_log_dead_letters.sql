/* The dead letters of a topic, or of all, that are not settled; number chooses one.  from_topic is where one came from: what it says itself, or
   else what the topic that it lies in is named after.  TL404 when there is neither the topic nor letters of it. */
create or replace function trunkline._log_dead_letters(topic text, number bigint, whole boolean)
returns table (letter bigint, from_topic text, from_group text, from_partition int, from_offset bigint, attempts int, reason text,
               failed_at timestamptz, key bytea, value bytea, headers jsonb, readable boolean)
language plpgsql as $$
declare
  dead text := trunkline._log_dead_topic(topic);
  lies record;
begin
  if topic is not null and not exists (select from trunkline.log_topic t where t.topic = dead) then
    perform trunkline._log_topic_row(topic);
  elsif topic is not null then
    perform trunkline._log_may(dead, 'read', 'consume');
  end if;
  for lies in
    select t.topic as in_topic, p as part from trunkline.log_topic t join trunkline.log_partition p using (topic_id)
     where p.partition = 0 and (t.topic = dead or dead is null and t.topic like '%.dead' and trunkline._may('topic:' || t.topic, '{read,consume}', trunkline._caller()))
  loop
    return query
      select l.letter, coalesce(l.about ->> 'topic', left(lies.in_topic, -5)), l.about ->> 'group',
             substring(l.about ->> 'partition' from '^[0-9]{1,9}$')::int, substring(l.about ->> 'offset' from '^[0-9]{1,18}$')::bigint,
             substring(l.about ->> 'attempts' from '^[0-9]{1,9}$')::int,
             case when l.readable then l.about ->> 'reason' else 'it is compressed, and SQL cannot read it' end,
             l.failed_at, l.key, l.value, l.headers, l.readable
        from trunkline._log_dead_ranges(lies.part) r
       cross join lateral trunkline._log_dead_read(lies.in_topic, greatest(r.first_offset, number), least(r.last_offset, number), whole) l;
  end loop;
end $$;
