/* Events after a position for which a condition holds, in order: history and present alike, without a group, a
   subscription or any trace.  Looks at up to max_events events.  A last row without an event says how far it looked.
   No row: nothing is new.  after NULL tells the present end only.  incarnation: the life of the server in which the
   position was given.  Leaves out events for one subscription alone, and those of watched tables that you may not see.  Waits for no lock, and writes nothing when nothing is new.
   The server cannot send an event with more than 1 GB as text: name the other columns then; clients do so by themselves.
   Needs a temporary table, which a standby cannot have.
   Errors: TL410 when events after the position have left, or the position is not of this history, TL413, TL422 also for a
   condition that fails, with the event. */
create or replace function trunkline.broker_scan(condition text default null, params jsonb default '{}', after bigint default null, max_events int default 1000, incarnation int default null)
returns table (up_to bigint, event_id bigint, topic text, key text, payload jsonb, metadata jsonb, at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  head bigint := trunkline.broker_head();
  present int := trunkline.incarnation();
  patience text := current_setting('lock_timeout');
  wanted record;
  watcher trunkline.broker_subscription;
  first_one bigint;
  bad_place int;
  places int[];
  trouble text;
begin
  if current_setting('transaction_read_only') = 'on' then  -- before the first event comes
    perform trunkline._raise('25006', 'events are looked through in a temporary table, and this server takes only reads.', 'Name the primary, or see default_transaction_read_only.');
  end if;
  if max_events is null or max_events not between 1 and 100000 then
    perform trunkline._raise('TL422', format('max_events is between 1 and 100000, got %s.', coalesce(max_events::text, 'NULL')));
  end if;
  wanted := trunkline._condition_read(condition, params);
  if (wanted.wanted).kind = 'sql' and (wanted.wanted).condition_id is null then
    begin  -- it is kept, so that the next look need not check it again; not when that has to wait for somebody
      perform set_config('lock_timeout', '100ms', true);
      perform trunkline._condition_ensure(condition, params);
    exception when lock_not_available then
      null;
    end;
    perform set_config('lock_timeout', patience, true);
  end if;
  if broker_scan.incarnation <> present or after > head then
    perform trunkline._raise('TL410', format('position %s is not of this history: the server has begun another life since.', coalesce(after::text, 'NULL')), 'Start again from the present end.',
      jsonb_build_object('head', head, 'incarnation', present));
  elsif after is null then
    up_to := head;
    return next;
    return;
  elsif after < 0 then
    perform trunkline._raise('TL422', format('positions begin at 1, got %s.', after));
  elsif after = head then
    return;
  end if;
  perform trunkline._match_prepare();
  head := trunkline._match_take(after + 1, max_events, trunkline._caller());
  select min(b.event_position) into first_one from pg_temp.trunkline_batch b;
  if first_one is distinct from after + 1 then
    perform trunkline._event_left(after + 1);
  end if;
  watcher.subscription := 0;
  watcher.params := wanted.effective;
  watcher.from_position := 0;
  watcher.owners := array[trunkline._caller()];
  begin
    places := array(select r.place from trunkline._match_run((wanted.wanted).kind, trunkline._match_statement(wanted.wanted, watcher)) r);
  exception when others then
    trouble := format('%s (%s)', sqlerrm, sqlstate);
  end;
  if trouble is not null then
    bad_place := trunkline._match_first_bad(wanted.wanted, watcher);
    perform trunkline._raise('TL422', format('the condition fails on the event at position %s: %s.', after + bad_place, trouble), 'Mend the condition, or begin after that event.',
      jsonb_build_object('position', after + bad_place));
  end if;
  return query
    select b.event_position, b.event_id, b.topic, b.key, b.payload, b.metadata, b.at from unnest(places) f (place) join pg_temp.trunkline_batch b using (place)
    union all
    select head, null, null, null, null, null, null where not exists (select from unnest(places) f (place) where f.place = head - after)
    order by 1;
end $$;
comment on function trunkline.broker_scan(text, jsonb, bigint, int, int) is 'Events after a position for which a condition holds, in order, without leaving any trace.';
select trunkline._access('broker_scan(text, jsonb, bigint, int, int)', 'reader');
