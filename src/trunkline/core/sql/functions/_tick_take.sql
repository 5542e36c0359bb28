/* Number what was committed to a source since the last tick.  Returns how many rows got a position.
   Any number of processes may call it: one works, the others return 0 at once.  Writes nothing when
   nothing is new.  Long lists are cut into several ticks of one snapshot.  The first tick of a life is taken
   even if it is empty: the ones after it need not look at every row. */
create or replace function trunkline._tick_take(sequence text, chunk int default 10000)
returns int language plpgsql as $$
declare
  source record;
  space int := trunkline._xid_space();
  last trunkline.tick;
  newer trunkline.tick;
  seen record;
  total int;
begin
  perform trunkline._isolation_check('A tick');
  -- a look without any lock first: an idle poll writes nothing
  select s.source, s.tag into source from trunkline.sequence s where s.sequence = _tick_take.sequence;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no sequence "%s".', sequence);
  end if;
  last := trunkline._tick_latest(sequence);
  seen := trunkline._tick_new(source.source, source.tag, last, space);
  if seen.seqs is null and last.xid_space = space then
    return 0;
  end if;
  perform 1 from trunkline.sequence s where s.sequence = _tick_take.sequence for no key update skip locked;
  if not found then
    return 0;
  end if;
  if now() <> statement_timestamp() then perform trunkline._lock_briefly(); end if;
  newer := trunkline._tick_latest(sequence);
  if newer.tick is distinct from last.tick then
    last := newer;
    seen := trunkline._tick_new(source.source, source.tag, last, space);
  end if;  -- otherwise what was seen before the lock is still all that follows the last tick, as of its snapshot
  total := coalesce(cardinality(seen.seqs), 0);
  if total = 0 and last.xid_space = space then
    return 0;
  end if;
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;  -- readers keep its positions
  insert into trunkline.tick (slot, sequence, tick, first_position, n, xid_space, spaces_before, snapshot, xids, seqs, tags, at)
  select trunkline._ring_current('tick'), _tick_take.sequence, coalesce(last.tick, 0) + 1 + part,
         coalesce(last.first_position + last.n, 1) + part * chunk, least(chunk, total - part * chunk), space,
         array(select last.xid_space where last.xid_space <> space union select unnest(last.spaces_before) union select unnest(seen.spaces)),
         seen.snapshot,
         coalesce(seen.xids[part * chunk + 1 : (part + 1) * chunk], '{}'), coalesce(seen.seqs[part * chunk + 1 : (part + 1) * chunk], '{}'),
         seen.tags[part * chunk + 1 : (part + 1) * chunk],
         greatest(clock_timestamp(), last.at)
    from generate_series(0, greatest(total - 1, 0) / chunk) part;
  return total;
end $$;
