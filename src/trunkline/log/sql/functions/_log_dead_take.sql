/* The numbers of the dead letters that are meant, one or all of a group: they are settled when this transaction commits.  Whoever wants one of
   them meanwhile waits, and then does not find it.  Errors: TL400 unless in READ COMMITTED, TL404, TL422. */
create or replace function trunkline._log_dead_take(topic text, letter bigint, group_name text)
returns bigint[] language plpgsql as $$
declare
  dead trunkline.log_topic;
  part trunkline.log_partition;
  seen trunkline.cursor;
  taken bigint[];
  kept jsonb;
begin
  perform trunkline._isolation_check('Settling dead letters');
  if topic is null or (letter is null) = (group_name is null) then
    raise exception using errcode = 'TL422', message = 'expected a topic, and the number of one dead letter or a group.';
  end if;
  select t.* into dead from trunkline.log_topic t where t.topic = trunkline._log_dead_topic(_log_dead_take.topic);
  if found then
    perform trunkline._log_may(dead.topic, 'consume');
    perform trunkline._log_group_ensure(dead, 'dead-letters', 'shared', 'earliest');
    seen := trunkline._cursor_hold(trunkline._log_resource(dead.topic_id, 'dead-letters', 0));
    perform trunkline._log_group_check(dead, 'dead-letters');
    part := trunkline._log_partition_row(dead.topic, 0);
  end if;
  taken := array(select l.letter from trunkline._log_dead_letters(topic, letter, false) l
                  where _log_dead_take.group_name is null or l.from_group = _log_dead_take.group_name order by 1);
  if taken = '{}' then
    if letter is not null then
      perform trunkline._log_dead_missing(topic, letter);
    end if;
    return taken;
  end if;
  -- what is not taken stays as claims that nobody holds: the rest of those that were cut, and what is passed over now
  with ranges as (
    select r.*, array(select t from unnest(taken) t where t between r.first_offset and r.last_offset) as cut from trunkline._log_dead_ranges(part) r)
  select jsonb_agg(k.claim) into kept
    from (select r.claim from ranges r where r.cut = '{}' and r.claim is not null
          union all
          select coalesce(r.claim, '{"attempts": 0, "reason": null}')
                   || jsonb_build_object('claim', trunkline._log_claim_number(), 'first_offset', g.after + 1, 'last_offset', g.before - 1,
                                         'deadline', clock_timestamp(), 'process', null)
            from ranges r
           cross join lateral (
             select lag(c.place, 1, r.first_offset - 1) over (order by c.place) as after, c.place as before
               from unnest(r.cut || case when r.claim is not null then r.last_offset + 1 end) c (place) where c.place is not null) g
           where r.cut <> '{}' and g.after + 1 < g.before) k;
  perform trunkline._cursor_move(seen, greatest(seen.up_to, taken[cardinality(taken)]), kept);
  return taken;
end $$;
