/* What became of an event, hop by hop: published, numbered, matched, delivered to handlers and webhooks, forwarded into the log and consumed there.  state is done,
   waits, retrying, parked, dead or failed; what says it in words.  An event that has left is told of as far as retries and logs remember it.
   Looks through the rings, which takes a while where they are full.  Reads only.  TL404: nothing is known of such an event. */
create or replace function trunkline.broker_why(event_id bigint)
returns table (hop text, state text, at timestamptz, what text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
  known boolean := false;
  due trunkline.event_due;
  event trunkline.event;
  place bigint;
  matched bigint := coalesce(trunkline._broker_matched(), 0);
  numbered_at timestamptz;
  forwarded trunkline.log_topic;
  up_to bigint;
  into_partition int;
  stored record;
begin
  select d.* into due from trunkline.event_due d where d.event_id = broker_why.event_id;
  if found then
    return query select 'published', 'waits', due.deliver_at, format('topic %s, key %s; it waits for its time', due.topic, coalesce(due.key, 'none'));
    return;
  end if;
  select e.* into event from trunkline.event e where coalesce(e.event_id, e.seq) = broker_why.event_id limit 1;
  if found and (event.watch is null or coalesce(event.watch = any (trunkline._watch_readable(trunkline._caller())), true)) then
    known := true;
    return query select 'published', 'done', event.at, format('topic %s, key %s', event.topic, coalesce(event.key, 'none'))
      || case when event.subscription is not null then format(', for subscription %s alone', event.subscription) else '' end;
    select t.first_position + u.nth - 1, t.at into place, numbered_at
      from trunkline.tick t cross join lateral unnest(t.xids, t.seqs) with ordinality u (xid, seq, nth)
     where t.sequence = 'event' and t.xids @> array[event.xid] and u.xid = event.xid and u.seq = event.seq limit 1;
    if place is null then
      return query select 'numbered', 'waits', (select max(t.at) from trunkline.tick t where t.sequence = 'event'), 'no tick has seen it: does trunkline up run? at is the last tick.';
      return;
    end if;
    return query select 'numbered', 'done', numbered_at, format('position %s', place);
    return query select 'matched', case when matched >= place then 'done' else 'waits' end, null::timestamptz,
      case when matched >= place then format('to %s', (select trunkline._counted(count(*)::bigint, 'subscription') from trunkline.delivery d, unnest(d.positions) p where d.lowest <= place and p = place))
           else format('the matcher is %s events before it', place - matched) end;
  end if;
  return query
    select 'handled', coalesce(case r.status when 'waiting' then 'retrying' else r.status end, case when c.up_to >= f.delivery then 'done' else 'waits' end), coalesce(r.due_at, f.at),
           format('group %s, handler %s, lane %s, delivery %s, subscription %s', f.group_name, case h.handler when '' then 'of no name' else h.handler end, f.lane, f.delivery, f.subscription)
           || case when r.retry is not null then format('; tried %s times: %s', r.attempts, split_part(r.errors -> -1 ->> 'error', E'\n', 1))
                   when c.up_to >= f.delivery then ''
                   when l.name is null then '; nobody works on this lane'
                   else format('; %s works on this lane, and stands at %s', l.name, c.up_to) end
      from (select g.group_id, g.group_name, d.lane, d.first + u.nth - 1 as delivery, u.subscription, d.at
              from trunkline.delivery d cross join lateral unnest(d.positions, d.subscriptions) with ordinality u (position_, subscription, nth)
              join trunkline.broker_group g on g.group_id = d.group_id
             where d.lowest <= place and u.position_ = place
            union
            select g.group_id, g.group_name, r.lane, r.delivery, r.subscriptions[1], r.created_at
              from trunkline.broker_retry r join trunkline.broker_group g on g.group_id = r.group_id
             where r.event_id = broker_why.event_id and place is null) f
      join trunkline.broker_handler h on h.group_id = f.group_id and (h.subscriptions is null or f.subscription = any (h.subscriptions))
     cross join lateral (select trunkline._broker_position(f.group_id, h.handler, f.lane) as up_to) c
      left join trunkline.broker_retry r on r.group_id = f.group_id and r.handler = h.handler and r.lane = f.lane and r.delivery = f.delivery
      left join trunkline.owner o on o.resource = trunkline._broker_resource(f.group_id, h.handler, f.lane)
      left join trunkline.lease l on l.process = o.process
     order by f.group_name, h.handler;
  known := known or found;
  return query
    select 'posted', case when l.error is null then 'done' else 'failed' end, l.at,
           format('webhook %s, try %s: %s', l.webhook, l.attempt, coalesce(l.error, 'answered ' || l.status::text))
      from trunkline.webhook_log l where l.event_ids @> array[broker_why.event_id] order by l.entry;
  known := known or found;
  return query
    select 'forwarded', 'failed', a.aside_at, a.error from trunkline.broker_forward_aside a where a.event_id = broker_why.event_id;
  known := known or found;
  select t.* into forwarded from trunkline.log_topic t where t.topic = event.topic and event.subscription is null;
  if found and not exists (select from trunkline.broker_forward_aside a where a.event_id = broker_why.event_id) then
    up_to := (select c.up_to from trunkline.cursor_key k cross join lateral trunkline._cursor_latest(k.cursor_id) c where k.resource = trunkline._broker_forward_resource(forwarded.topic_id));
    if up_to >= place then
      into_partition := case when forwarded.partitions = 1 then 0
        else trunkline.log_partition_of(convert_to(coalesce(event.key, event.topic), 'UTF8'), forwarded.partitions) end;
      stored := trunkline._broker_forwarded_place(event.topic, into_partition, broker_why.event_id, event.at);
      return query select 'forwarded', 'done', stored.at, format('into topic %s of the log, partition %s', event.topic, into_partition) || coalesce(format(', offset %s', stored.log_offset), '; it has left, or is archived');
      return query
        select 'consumed', case when g.up_to >= stored.log_offset then 'done' else 'waits' end, g.moved_at,
               format('group %s, which is at offset %s', g.group_name, g.up_to)
               || case when g.up_to >= stored.log_offset then '' when g.claims > 0 then format(', with %s', trunkline._counted(g.claims::bigint, 'claim'))
                       when g.process is not null then format('; %s works on this partition', coalesce(nullif(g.process_name, ''), g.process::text)) else '; nobody works on this partition' end
          from trunkline.log_groups(event.topic) g where g.partition = into_partition and stored.log_offset is not null;
    else
      return query select 'forwarded', 'waits', null::timestamptz, format('into topic %s of the log, which is at position %s', event.topic, up_to);
    end if;
  end if;
  if not known then
    raise exception using errcode = 'TL404', message = format('nothing is known of event %s.', coalesce(event_id::text, 'NULL')),
      hint = 'It was never published, its transaction is open or was rolled back, or it has left: see broker.retention.';
  end if;
end $$;
comment on function trunkline.broker_why(bigint) is 'What became of an event, hop by hop.';
select trunkline._access('broker_why(bigint)', 'reader');
