/* Subscribe a group to the events for which a condition holds; returns the number of the subscription.  The same group,
   condition and params give the same subscription; of two expiries the longer wins, and none wins over any.
   condition: a boolean expression over e and s, or the JSON form; NULL or an empty text for every event.  params: what it reads as s.params.
   expiry: the subscription goes when it has not been held for so long, see broker_hold(); process holds it at once.
   from_position, from_time: events of the past are matched first, from a time what is still there; without, what is published from now on.
   handler: make a reader of the group for this subscription, in the same transaction; ordering is "strict" or "skip".  One that
   is there goes on where it is, wherever it was to begin: the same program can be started again when the past has left.
   A handler has one subscription.  Another one is refused (TL409), unless replace is true: then it takes the place of the first,
   which ends unless other handlers read it; what was found for it is still read, and what both conditions fit is not missed in between.
   While another transaction that has not ended makes the same condition, group, subscription or handler, this one waits for it,
   since only its end says whether they are there: up to broker.subscribe_patience, or the caller's lock_timeout, then TL409.
   A condition in SQL that is new makes and drops a temporary view: that transaction cannot be prepared.
   Errors: TL409 also for a handler with another subscription, TL410 when events from from_position on have left, TL413, TL422, TL423 without a living lease. */
create or replace function trunkline.broker_subscribe(group_name text, condition text default null, params jsonb default '{}', expiry interval default null,
  from_position bigint default null, from_time timestamptz default null, process uuid default null, handler text default null,
  ordering text default null, lanes int default null, replace boolean default false)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted record;
  present trunkline.broker_subscription;
  of_group trunkline.broker_group;
  begins bigint;
  patience text := current_setting('lock_timeout');
begin
  if expiry <= '0' or expiry > interval '1000 years' then
    raise exception using errcode = 'TL422', message = format('an expiry is longer than nothing and at most 1000 years, got %s.', expiry);
  elsif ordering is not null and handler is null then
    raise exception using errcode = 'TL422', message = 'ordering is that of a handler: name the handler too.';
  elsif replace and handler is null then
    raise exception using errcode = 'TL422', message = 'replace concerns the subscription of a handler: name the handler too.';
  end if;
  if (from_position is not null or from_time is not null)
     and not exists (select from trunkline.broker_handler h join trunkline.broker_group g using (group_id)
                      where g.group_name = broker_subscribe.group_name and h.handler = broker_subscribe.handler) then
    begins := trunkline._subscription_begins(from_position, from_time);
  end if;
  begin
    if patience = '0' then
      perform set_config('lock_timeout', ceil(1000 * extract(epoch from trunkline._setting('broker.subscribe_patience')::interval))::int || 'ms', true);
    end if;
    wanted := trunkline._condition_ensure(condition, params);
    loop
      of_group := trunkline._broker_group_ensure(group_name, lanes, expiry is null);
      perform 1 from trunkline.broker_group g where g.group_id = of_group.group_id for key share;
      exit when found;  -- otherwise it has just been deleted
    end loop;
    present := trunkline._subscription_ensure(of_group, wanted.found_one, wanted.effective, condition, params, expiry, begins);
    if process is not null then
      perform trunkline.broker_hold(present.subscription, process);
    end if;
    if handler is not null then
      perform trunkline._broker_handler_ensure(of_group.group_id, handler, present.subscription, ordering, replace);
    end if;
    perform set_config('lock_timeout', patience, true);
  exception when lock_not_available then
    raise exception using errcode = 'TL409', message = 'another transaction makes or changes the same condition, group, subscription or handler and does not end.',
      hint = 'End it, then subscribe again: doctor_blockers() names it. broker.subscribe_patience, or lock_timeout, says how long to wait.';
  end;
  return present.subscription;
end $$;
comment on function trunkline.broker_subscribe(text, text, jsonb, interval, bigint, timestamptz, uuid, text, text, int, boolean) is
  'Subscribe a group to the events for which a condition holds; the same content gives the same subscription.';
select trunkline._access('broker_subscribe(text, text, jsonb, interval, bigint, timestamptz, uuid, text, text, int, boolean)', 'reader');
