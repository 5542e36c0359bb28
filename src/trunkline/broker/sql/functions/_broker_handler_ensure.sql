/* Make a reader of a group, with cursors of its own.  With a subscription it begins at the present end and sees only
   what is found for that; without, at the first delivery that the group still holds, and sees all; but if deliveries have
   left while the group had no handler, the first such reader begins with those, and is told that they have left.
   Another subscription is refused unless replace is true.  Then it takes the place of the one before: what was found for that is still read, and the new one is
   matched from where the matcher stands, or, when the one before was late or in quarantine, from where that stopped: no event falls
   between them.  Only one that others read already begins where they are.  NULL ordering keeps it.
   Errors: TL404 the group was just deleted, TL409 it has another subscription, TL422. */
create or replace function trunkline._broker_handler_ensure(group_id int, handler text, subscription bigint, ordering text, replace boolean default false)
returns void language plpgsql as $$
declare
  present trunkline.broker_handler;
  before bigint;
  begins bigint;
  lanes int;
begin
  perform trunkline._lock_briefly();
  if handler is null or handler !~ '^[^[:cntrl:]]{0,200}$' then
    raise exception using errcode = 'TL422', message = format('the name of a handler has at most 200 characters, none of them a control character, got %s.', coalesce(quote_literal(left(handler, 80)), 'NULL'));
  elsif ordering not in ('strict', 'skip') then
    raise exception using errcode = 'TL422', message = format('ordering is "strict" or "skip", got "%s".', ordering),
      hint = 'strict: a failed event holds back the later ones of its key; skip: it does not.';
  end if;
  -- the row of the group is held, so that one makes the cursors and others find them
  select g.lanes, case when subscription is null then coalesce(g.untold_from - 1, greatest(g.begins_after, g.trimmed_to)) else trunkline._broker_delivered() end
    into lanes, begins from trunkline.broker_group g where g.group_id = _broker_handler_ensure.group_id for no key update;
  if not found then
    raise exception using errcode = 'TL404', message = 'the group was deleted meanwhile.';
  end if;
  select h.* into present from trunkline.broker_handler h where h.group_id = _broker_handler_ensure.group_id and h.handler = _broker_handler_ensure.handler;
  if not found then
    perform trunkline._reserved_refuse('handler', handler);
    insert into trunkline.broker_handler (group_id, handler, subscriptions, ordering)
    values (_broker_handler_ensure.group_id, _broker_handler_ensure.handler,
            case when subscription is not null then array[subscription] end, coalesce(ordering, 'strict'));
    for lane in 0 .. lanes - 1 loop
      perform trunkline._cursor_move(trunkline._cursor_hold(trunkline._broker_resource(group_id, handler, lane)), begins);
    end loop;
    if subscription is null then
      update trunkline.broker_group g set untold_from = null where g.group_id = _broker_handler_ensure.group_id and g.untold_from is not null;
    end if;
    return;
  end if;
  before := present.subscriptions[cardinality(present.subscriptions)];
  if subscription is not null and before is distinct from subscription then
    if not coalesce(replace, false) then
      perform trunkline._broker_handler_refuse(present, before);
    elsif exists (select from trunkline.broker_subscription s where s.subscription = before and s.group_id = present.group_id) then
      perform trunkline._subscription_may(before);
    end if;
    update trunkline.broker_subscription s
       set from_position = least(s.from_position, coalesce(o.stopped_at, trunkline._broker_matched()) + 1), caught_up_to = o.stopped_at
      from (select max(coalesce(b.caught_up_to, a.matched)) as stopped_at
              from trunkline.broker_subscription b left join trunkline.broker_subscription_aside a on a.subscription = b.subscription where b.subscription = before) o
     where s.subscription = _broker_handler_ensure.subscription and s.caught_up_to is null and s.from_position > trunkline._broker_matched();
    update trunkline.broker_handler h
       set subscriptions = case when h.subscriptions is not null then array_remove(h.subscriptions, _broker_handler_ensure.subscription) || _broker_handler_ensure.subscription end
     where h.group_id = present.group_id and h.handler = present.handler;
    delete from trunkline.broker_subscription s
     where s.subscription = before and s.group_id = present.group_id
       and not exists (select from trunkline.broker_handler o where o.group_id = present.group_id and o.handler <> present.handler and before = any (o.subscriptions));
  end if;
  if ordering <> present.ordering then
    update trunkline.broker_handler h set ordering = _broker_handler_ensure.ordering where h.group_id = present.group_id and h.handler = present.handler;
    if ordering = 'skip' then  -- nobody waits for another any more
      update trunkline.broker_retry r set status = 'waiting', due_at = clock_timestamp(), batch = r.retry
       where r.group_id = present.group_id and r.handler = present.handler and r.status = 'parked';
    end if;
  end if;
end $$;
