/* log_claim with the clock given, for tests.  begins is where a group starts that this transaction has made: retention may have
   passed that place since, and then the group starts where the log does by now. */
create or replace function trunkline._log_claim(
  topic text, group_name text, partition int, max_messages int, deadline interval, max_attempts int, process uuid, now_ timestamptz,
  archived boolean default false, begins text default null)
returns table (claim bigint, first_offset bigint, last_offset bigint, attempts int, expires timestamptz, reason text)
language plpgsql as $$
#variable_conflict use_variable
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  resource text := trunkline._log_resource(part.topic_id, group_name, partition);
  seen trunkline.cursor := trunkline._cursor_latest(trunkline._cursor_ensure(resource));
  tail bigint := trunkline._log_tail(part);
  due bigint;
  old record;
  others jsonb;
begin
  -- a look without any lock first: an idle poll writes nothing
  if trunkline._log_done_up_to(part, seen.up_to) >= tail and (seen.state is null or trunkline._log_claim_due(seen.state, now_) is null) then
    return;
  end if;
  perform trunkline._isolation_check('A claim');
  seen := trunkline._cursor_hold(resource);
  if seen.seq is null and not exists (select from trunkline.log_group g where g.topic_id = part.topic_id and g.group_name = _log_claim.group_name) then
    -- it was deleted while we waited: the next claim makes it anew, where it is told to
    delete from trunkline.cursor_key k where k.cursor_id = seen.cursor_id;
    return;
  end if;
  if seen.up_to = -1 then  -- sought to earliest: wherever that is by now
    part := trunkline._log_partition_row(topic, partition);
  end if;
  seen.up_to := trunkline._log_done_up_to(part, seen.up_to);
  if begins is not null and seen.up_to < part.first_offset - 1 then
    seen := trunkline._cursor_move(seen, trunkline._log_start(topic, part, begins) - 1);
  end if;
  if seen.up_to > tail - max_messages then  -- what came while we waited for the lock may complete the range
    tail := trunkline._log_tail(part);
    if seen.up_to > tail then  -- a segment was sealed meanwhile, and others have claimed from the one after it
      select p.* into part from trunkline.log_partition p where p.topic_id = part.topic_id and p.partition = part.partition;
      tail := trunkline._log_tail(part);
    end if;
  end if;
  if seen.up_to < part.first_offset - 1 and not (archived and (trunkline._log_archived(part, seen.up_to + 1)).topic_id is not null)
     or seen.up_to > tail or tail is null then
    perform trunkline._log_check_position(topic, part, seen.up_to + 1, null);
  end if;
  if seen.state is not null then
    due := trunkline._log_claim_due(seen.state, now_);
  end if;
  others := coalesce(seen.state, '[]');
  claim := trunkline._log_claim_number();
  expires := now_ + deadline;
  if due is not null then
    select c.* into old from trunkline._log_claims(others) c where c.claim = due;
    select coalesce(jsonb_agg(c), '[]') into others from trunkline._log_claims(others) c where c.claim <> due;
    if not (archived and (trunkline._log_archived(part, old.first_offset)).topic_id is not null) then
      perform trunkline._log_check_position(topic, part, old.first_offset, null);
    end if;
    first_offset := old.first_offset;
    attempts := old.attempts + 1;
    reason := old.reason;
    -- the last try of a range is made message by message, so that only the one that really fails ends as a
    -- dead letter; where the first try was the last, each gets one more
    last_offset := case when attempts >= max_attempts then old.first_offset
                        else least(old.last_offset, old.first_offset + max_messages - 1) end;
    if old.first_offset < old.last_offset then
      attempts := least(attempts, max_attempts);
    end if;
    if last_offset < old.last_offset then
      others := others || jsonb_build_object('claim', trunkline._log_claim_number(), 'first_offset', last_offset + 1, 'last_offset', old.last_offset,
                                             'deadline', now_, 'attempts', least(old.attempts, max_attempts - 1), 'process', null, 'reason', old.reason);
    end if;
  elsif seen.up_to < tail then
    -- only what is new: a range that comes back may be cut in pieces, and has to be finished some time
    if deadline is not null and jsonb_array_length(others) >= trunkline._setting('log.max_claims')::int then
      raise exception using errcode = 'TL429', message = format('group "%s" has %s in flight on partition %s of "%s".', group_name, trunkline._counted(jsonb_array_length(others), 'claim'), partition, topic),
        hint = 'Acknowledge or release some, claim larger ranges, or raise log.max_claims.', detail = jsonb_build_object('claims', jsonb_array_length(others))::text;
    end if;
    first_offset := seen.up_to + 1;
    last_offset := least(tail, seen.up_to + max_messages);
    attempts := 1;
  else
    return;
  end if;
  if deadline is not null then
    others := others || jsonb_build_object('claim', claim, 'first_offset', first_offset, 'last_offset', last_offset, 'deadline', expires, 'attempts', attempts, 'process', process, 'reason', reason);
  end if;
  perform trunkline._cursor_move(seen, greatest(seen.up_to, last_offset), nullif(others, '[]'));
  return next;
end $$;
