/* Move what a claim holds to the topic <topic>.dead, made if need be, and end the claim, in one transaction: a message is in
   either place, and once.  The header dead of each letter says where it came from (topic, partition, offset, at), the
   group, the attempts and the reason.  With a reason this delivery counts as an attempt.  Without, the reason is what
   the last log_release() said, and this delivery was none: so it is for a claim with attempts above max_attempts.
   payload, key, headers and at are for a message that SQL cannot read, compressed or archived: a client that has decoded it
   hands it over, with a claim of one message.  Returns which offset has become which letter; see log_dead_list().
   Holds the partition of the letters until commit.  Errors: TL404, TL410, TL415, TL422, TL423 the claim is not in flight any more. */
create or replace function trunkline.log_bury(
  topic text, group_name text, partition int, claim bigint, reason text default null,
  payload bytea default null, key bytea default null, headers jsonb default null, at timestamptz default null)
returns table (log_offset bigint, letter bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  dead text := trunkline._log_dead_topic(topic);
  seen trunkline.cursor;
  held record;
  about jsonb;
  message record;
  reach bigint;
begin
  perform trunkline._log_group_may(topic, group_name, 'consume');
  seen := trunkline._cursor_hold(trunkline._log_resource(part.topic_id, group_name, partition));
  select c.* into held from trunkline._log_claims(seen.state) c where c.claim = log_bury.claim;
  perform trunkline._log_claim_change(topic, group_name, partition, claim, null);
  if payload is null and num_nonnulls(key, headers, at) > 0 then
    raise exception using errcode = 'TL422', message = 'key, headers and at go with a payload.';
  elsif payload is not null and held.first_offset < held.last_offset then
    raise exception using errcode = 'TL422', message = format('a message is handed over with a claim of one message, claim %s is of offsets %s to %s.', claim, held.first_offset, held.last_offset),
      hint = 'Release it: the last try of a range is made message by message.';
  elsif jsonb_typeof(headers) <> 'object' then
    raise exception using errcode = 'TL422', message = 'a header must be a JSON object or NULL.', hint = 'For example: {"trace": "abc"}';
  end if;
  if not exists (select from trunkline.log_topic t where t.topic = dead) then
    begin
      perform trunkline.log_create(dead);
      perform trunkline._object_like('topic:' || dead, 'topic:' || topic);
    exception when sqlstate 'TL409' then
      null;  -- another transaction was quicker, with settings of its choice
    end;
  end if;
  if exists (select from trunkline.object o join pg_roles r on r.rolname = o.owner
              where o.object = 'topic:' || dead and not trunkline._may('topic:' || topic, '{read,consume}', o.owner)) then
    raise exception using errcode = 'TL403', message = format('topic "%s" belongs to a role that may not read "%s".', dead, topic),
      hint = format('Have an admin run: select trunkline.object_transfer(%L, %L)', 'topic:' || dead, (select o.owner from trunkline.object o where o.object = 'topic:' || topic)),
      detail = jsonb_build_object('topic', dead)::text;
  end if;
  about := jsonb_build_object('topic', topic, 'group', group_name, 'partition', partition,
    'attempts', held.attempts - case when reason is null then 1 else 0 end,
    'reason', coalesce(left(reason, 2000), held.reason, 'its consumer did not acknowledge it in time'));
  if payload is not null then
    log_offset := held.first_offset;
    letter := trunkline._log_bury(dead, about || trunkline._log_dead_origin(log_offset, at), key, payload, headers);
    return next;
    return;
  end if;
  reach := held.first_offset;
  while reach <= held.last_offset loop  -- one read need not bring all
    for message in
      select r.* from trunkline.log_read(topic, partition, reach, (held.last_offset - reach + 1)::int) r where r.log_offset <= held.last_offset
    loop
      log_offset := message.log_offset;
      letter := trunkline._log_bury(dead, about || trunkline._log_dead_origin(log_offset, message.at), message.key, message.value, message.headers);
      return next;
      reach := message.log_offset + 1;
    end loop;
    exit when not found;
  end loop;
end $$;
comment on function trunkline.log_bury(text, text, int, bigint, text, bytea, bytea, jsonb, timestamptz) is
  'Make what a claim holds dead letters, and end the claim; refused when it is not in flight any more.';
select trunkline._access('log_bury(text, text, int, bigint, text, bytea, bytea, jsonb, timestamptz)', 'writer');
