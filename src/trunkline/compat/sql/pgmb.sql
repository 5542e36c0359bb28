/* The statements of pgmb over the events and groups of trunkline. */
create or replace function pgmb.create_event_id(ts timestamptz, rand bigint)
returns text language sql immutable set search_path = pg_catalog, pg_temp as $$
  select 'pm' || lpad(to_hex((extract(epoch from $1) * 1000000)::bigint), 13, '0')
              || right(lpad(to_hex($2), 9, '0'), 9);
$$;
comment on function pgmb.create_event_id(timestamptz, bigint) is
  'An id that tells a time: an event that is inserted with it is delivered then.';

create or replace function pgmb.create_random_bigint()
returns bigint language sql volatile set search_path = pg_catalog, pg_temp as $$
  select (random() * 68719476735)::bigint;
$$;

/* The time of an id of create_event_id(); NULL for another one. */
create or replace function pgmb._event_time(id text)
returns timestamptz language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when $1 ~ '^pm[0-9a-f]{22}$'
              then timestamptz 'epoch'
                   + ('x' || substr($1, 3, 13))::bit(52)::bigint * interval '1 microsecond'
         end;
$$;

/* The number of an event as an id: 24 characters that sort in the order of the numbers. */
create or replace function pgmb._event_id(event_id bigint)
returns text language sql immutable set search_path = pg_catalog, pg_temp as $$
  select 'pm' || lpad(to_hex($1), 22, '0');
$$;

create or replace function pgmb._events()
returns table (id text, topic text, payload jsonb, metadata jsonb, subscription_id text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select pgmb._event_id(e.event_id), e.topic, e.payload, e.metadata, e.subscription::text
    from trunkline.broker_ends() b cross join lateral trunkline.broker_events(b.first_one, 2147483647) e;
$$;
create or replace view pgmb.events with (security_invoker = true) as
  select e.id, e.topic, e.payload, e.metadata, e.subscription_id from pgmb._events() e;
comment on view pgmb.events is
  'Events that are numbered: trunkline.broker_events(). An INSERT calls broker_publish().';

/* Publish the inserted row.  An id of create_event_id() with a time to come delays the event; the event gets
   an id of ours in any case. */
create or replace function pgmb._event_write()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  due timestamptz := pgmb._event_time(new.id);
  number bigint;
begin
  number := trunkline.broker_publish(new.topic, new.payload, metadata => new.metadata,
    deliver_at => case when due > clock_timestamp() then due end,
    subscription => new.subscription_id::bigint);
  new.id := pgmb._event_id(number);
  return new;
end $$;
create or replace trigger event_write instead of insert on pgmb.events
  for each row execute function pgmb._event_write();

create or replace function pgmb._subscriptions()
returns table (
  id text, group_id text, conditions_sql text, params jsonb, expiry_interval interval, last_active_at timestamptz)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select s.subscription::text, s.group_name, coalesce(nullif(s.condition, '{}'), 'TRUE'), s.params, s.expiry,
         coalesce(s.idle_since, now())
    from trunkline.broker_subscriptions() s;
$$;
create or replace view pgmb.subscriptions with (security_invoker = true) as
  select s.id, s.group_id, s.conditions_sql, s.params, s.expiry_interval, s.last_active_at
    from pgmb._subscriptions() s;
comment on view pgmb.subscriptions is
  'Subscriptions: broker_subscriptions(). INSERT calls broker_subscribe(), DELETE broker_unsubscribe().';

/* Insert, hold or delete a subscription.  A group has one lane: one cursor for all that it reads.  An UPDATE of
   last_active_at holds the subscription as long as the session reads; it expires when that is over. */
create or replace function pgmb._subscription_write()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform trunkline.broker_unsubscribe(old.id::bigint);
    return old;
  elsif tg_op = 'UPDATE' then
    if to_jsonb(new) - 'last_active_at' <> to_jsonb(old) - 'last_active_at' then
      perform trunkline._raise('TL409', 'of a subscription only last_active_at can be changed.',
        'Delete it and insert another.');
    end if;
    perform trunkline.broker_hold(old.id::bigint, pgmb._process());
    return new;
  end if;
  new.conditions_sql := coalesce(new.conditions_sql, 'TRUE');
  new.params := coalesce(new.params, '{}');
  new.id := trunkline.broker_subscribe(
    new.group_id, case when upper(new.conditions_sql) <> 'TRUE' then new.conditions_sql end, new.params,
    expiry => new.expiry_interval, lanes => 1);
  return new;
end $$;
create or replace trigger subscription_write instead of insert or update or delete on pgmb.subscriptions
  for each row execute function pgmb._subscription_write();

create or replace function pgmb._settings()
returns table (key text, setting text) language sql immutable set search_path = pg_catalog, pg_temp as $$
  values ('partition_retention_period', 'broker.retention'),
         ('partition_interval', 'ring.event.rotate_every'),
         ('future_intervals_to_create', null),
         ('poll_chunk_size', 'broker.match_events');
$$;
create or replace function pgmb._config()
returns table (key text, value text) language sql stable set search_path = pg_catalog, pg_temp as $$
  select s.key,
         case when s.setting is not null then trunkline.config_get(s.setting)
              else (trunkline.config_get('ring.event.rotate_every')::interval
                    * trunkline.config_get('ring.event.slots')::int)::text
         end
    from pgmb._settings() s;
$$;
create or replace view pgmb.config with (security_invoker = true) as
  select c.key, c.value from pgmb._config() c;
comment on view pgmb.config is 'Settings: trunkline.config_get(). An UPDATE calls config_set().';

create or replace function pgmb._config_write()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  setting text := (select s.setting from pgmb._settings() s where s.key = old.key);
begin
  if setting is null then
    raise notice '% changes nothing: the partitions of events are there from the start', old.key;
  else
    new.value := trunkline.config_set(setting, new.value);
  end if;
  return new;
end $$;
create or replace trigger config_write instead of update on pgmb.config
  for each row execute function pgmb._config_write();

grant select, insert on pgmb.events to public;
grant select, insert, update, delete on pgmb.subscriptions to public;
grant select, update on pgmb.config to public;

/* One step of upkeep; call trunkline.maintain() does all of it. */
create or replace function pgmb.maintain_events_table()
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline.rings_rotate();
end $$;
comment on function pgmb.maintain_events_table() is
  'Move on to the next partition in time, and empty those that are over: trunkline.rings_rotate().';

/* Number what was committed and match it with subscriptions.  Returns how many events were matched; 0:
   nothing is new. */
create or replace function pgmb.poll_for_events()
returns int language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline.broker_release(), trunkline.broker_tick();
  return trunkline.broker_match() + trunkline.broker_catch_up();
end $$;
comment on function pgmb.poll_for_events() is
  'Match new events with subscriptions: trunkline.broker_tick(), broker_match().';

/* The process of this session, with a living lease: it is what an advisory lock is there. */
create or replace function pgmb._process()
returns uuid language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  process uuid := (select md5(concat_ws(' ', 'pgmb', a.pid, a.backend_start))::uuid
                     from pg_stat_get_activity(pg_backend_pid()) a);
begin
  if coalesce(trunkline.lease_rest(process) < trunkline.lease_ttl() * 0.7, true) then
    perform trunkline.lease_renew(process, 'pgmb ' || pg_backend_pid());
  end if;
  return process;
end $$;

/* Read the next events of a group after a cursor, or after the stored one.  No row: nothing is new, or
   another session reads the group and has not released it.  peek reads without taking the group. */
create or replace function pgmb.read_next_events(
  gid text, cursor text default null, chunk_size int default 100, peek boolean default false)
returns table (id text, topic text, payload jsonb, metadata jsonb, subscription_ids text[], next_cursor text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if $4 or exists (select from trunkline.broker_join($1, '', pgmb._process()) j where j.lane = 0) then
    return query
      select pgmb._event_id(e.event_id), e.topic, e.payload, e.metadata, e.subscriptions::text[],
             (max(e.up_to) over ())::text
        from trunkline.broker_read($1, '', 0, $2::bigint + 1, $3, $4) e order by e.up_to;
  end if;
end $$;
comment on function pgmb.read_next_events(text, text, int, boolean) is
  'The next events of a group: trunkline.broker_read().';

/* Commit a cursor: everything up to it is done.  release_lock lets another session read the group.
   Errors: TL423 another session has the group. */
create or replace function pgmb.set_group_cursor(gid text, cursor text, release_lock boolean default true)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  process uuid := pgmb._process();
  epoch bigint := (select j.epoch from trunkline.broker_join($1, '', process) j where j.lane = 0);
begin
  if epoch is null then
    perform trunkline._raise('TL423', format('another session reads group "%s".', $1),
      'Read again from the stored cursor.');
  end if;
  perform trunkline.broker_commit($1, '', 0, epoch, $2::bigint);
  if $3 then
    perform trunkline.broker_leave($1, '', process);
  end if;
end $$;
comment on function pgmb.set_group_cursor(text, text, boolean) is
  'Say that everything up to a cursor is done: trunkline.broker_commit().';
