/* One round of matching: find who wants the next events, write the deliveries, and commit the matcher's cursor with
   them.  Any number may call it: one works.  Returns how many events it looked at; 0 when there is nothing to do.
   All conditions see one set of subscriptions, so that one that takes the place of another leaves no gap.  A condition
   that fails is looked at by itself: the subscriptions to blame are quarantined, all others go on.
   What takes too long is ended by the caller's statement_timeout: the matcher service then looks for the slow one.
   Subscriptions that began with the history are served by broker_catch_up().
   Errors: TL400 unless in READ COMMITTED, TL422. */
create or replace function trunkline.broker_match(max_events int default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  number bigint := (select k.cursor_id from trunkline.cursor_key k where k.resource = 'broker:matcher');
  most int := coalesce(max_events, trunkline._setting('broker.match_events')::int);
  latest trunkline.cursor := trunkline._cursor_latest(number);
  head bigint := trunkline.broker_head();
  batch trunkline.broker_match_event[];
  found_ record;
  up_to bigint;
begin
  perform trunkline._lock_briefly();
  perform trunkline._isolation_check('Matching');
  if max_events < 1 then
    perform trunkline._raise('TL422', format('max_events is at least 1, got %s.', max_events));
  end if;
  if head <= latest.up_to then
    return 0;
  end if;
  perform 1 from trunkline.cursor_key k where k.cursor_id = number for no key update skip locked;
  if not found then
    return 0;
  end if;
  latest := trunkline._cursor_latest(number);
  if head - latest.up_to <= least(most, 500) then
    batch := trunkline._match_few(latest.up_to + 1, least(most, 500));
  end if;
  if batch is not null then
    up_to := latest.up_to + cardinality(batch);
    perform trunkline._match_hide(array(select b.subscription from unnest(batch) b where b.subscription < 0));
    begin
      found_ := trunkline._match_find(batch);
    exception when others then
      batch := null;
    end;
  end if;
  if batch is null then
    perform trunkline._match_prepare();
    up_to := trunkline._match_take(latest.up_to + 1, most);
    if up_to is null then
      return 0;
    end if;
    begin
      found_ := trunkline._match_find(null);
    exception when others then
      perform trunkline._match_isolate(latest.up_to);
      found_ := trunkline._match_find(null);
    end;
  end if;
  perform trunkline._cursor_move(latest, up_to, jsonb_build_object('deliveries', trunkline._match_deliver(
    (latest.state ->> 'deliveries')::bigint, latest.up_to + 1, trunkline._match_buckets(batch), found_.places, found_.subscriptions)));
  return up_to - latest.up_to;
end $$;
comment on function trunkline.broker_match(int) is 'One round of matching: the next events become deliveries of the groups that want them.';
select trunkline._access('broker_match(int)', 'admin');
