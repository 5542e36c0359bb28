/* One round for a subscription that began with the history, or goes on after a quarantine: the next part of the history is
   matched for it alone.  When it has come to where the matcher stands it is matched with all others.
   Where positions have left that it still needed it goes on after them, and the event trunkline.subscription.trimmed tells of it.
   Subscriptions that were set aside while somebody held their rows go into quarantine when nobody does.
   Returns how many positions it moved; 0 when nobody is behind, or another process works.  TL400 unless in READ COMMITTED, TL422. */
create or replace function trunkline.broker_catch_up(max_events int default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  number bigint := (select k.cursor_id from trunkline.cursor_key k where k.resource = 'broker:matcher');
  most int := coalesce(max_events, trunkline._setting('broker.match_events')::int);
  late trunkline.broker_subscription := trunkline._match_late();
  latest trunkline.cursor;
  began bigint;
  left_up_to bigint;
  delivered bigint;
  reached bigint;
begin
  perform trunkline._lock_briefly();
  perform trunkline._isolation_check('Matching');
  if max_events < 1 then
    raise exception using errcode = 'TL422', message = format('max_events is at least 1, got %s.', max_events);
  end if;
  if late.subscription is null and not exists (select from trunkline.broker_subscription_aside) then
    return 0;
  end if;
  perform 1 from trunkline.cursor_key k where k.cursor_id = number for no key update skip locked;
  if not found then
    return 0;
  end if;
  perform trunkline._broker_quarantine_noted();
  late := trunkline._match_late_held();
  if late.subscription is null then
    return 0;
  end if;
  latest := trunkline._cursor_latest(number);
  began := late.caught_up_to;
  left_up_to := (select min(t.first_position) - 1 from trunkline.tick t where t.sequence = 'event');
  if left_up_to > began then
    perform trunkline._match_missed(late, began + 1, left_up_to);
    late.caught_up_to := left_up_to;
  end if;
  perform trunkline._match_prepare();
  delivered := trunkline._match_history(late, least(most, latest.up_to - late.caught_up_to)::int, (latest.state ->> 'deliveries')::bigint);
  if delivered is null then
    return 1;  -- it was quarantined
  end if;
  select greatest(s.caught_up_to, late.caught_up_to) into reached from trunkline.broker_subscription s where s.subscription = late.subscription;
  if reached > late.caught_up_to and (select count(*) from pg_temp.trunkline_batch) < reached - late.caught_up_to then  -- ticks outlive their events
    perform trunkline._match_missed(late, min(m.position), max(m.position))
       from (select late.caught_up_to + g from generate_series(1, (reached - late.caught_up_to)::int) g
             except all select late.caught_up_to + b.place from pg_temp.trunkline_batch b) m (position);
  end if;
  if reached >= latest.up_to then
    update trunkline.broker_subscription s set caught_up_to = null, from_position = greatest(s.from_position, latest.up_to + 1)
     where s.subscription = late.subscription;
  end if;
  if delivered > (latest.state ->> 'deliveries')::bigint then
    perform trunkline._cursor_move(latest, latest.up_to, jsonb_build_object('deliveries', delivered));
  end if;
  return greatest(reached - began, 1);
end $$;
comment on function trunkline.broker_catch_up(int) is 'One round of matching the history for a subscription that began with it.';
select trunkline._access('broker_catch_up(int)', 'admin');
