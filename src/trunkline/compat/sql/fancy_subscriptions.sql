/* The functions of postgraphile-fancy-subscriptions over live tables.  A device is a process with a lease. */
create table if not exists fancy_subscriptions.active_devices (
  role name not null default current_user,
  name text not null,
  latest_cursor bigint not null,
  incarnation int not null,
  last_activity_at timestamptz not null default now(),
  constraint active_devices_pkey primary key (role, name)
);
comment on table fancy_subscriptions.active_devices is
  'How far each device has read. Each role sees its own.';
grant select, insert, update on fancy_subscriptions.active_devices to public;
alter table fancy_subscriptions.active_devices enable row level security;
drop policy if exists own on fancy_subscriptions.active_devices;
create policy own on fancy_subscriptions.active_devices
  using (role = current_user) with check (role = current_user);

create or replace function fancy_subscriptions.make_subscribable(tbl regclass)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline.live_watch($1);
end $$;
comment on function fancy_subscriptions.make_subscribable(regclass) is
  'Make a table live: trunkline.live_watch().';

create or replace function fancy_subscriptions.remove_subscribable(tbl regclass)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline.live_unwatch($1);
end $$;
comment on function fancy_subscriptions.remove_subscribable(regclass) is
  'A table is live no longer: trunkline.live_unwatch().';

/* The process that a device is: trunkline.live_subscribe() takes it. */
create or replace function fancy_subscriptions.device_process(device_name text)
returns uuid language sql stable set search_path = pg_catalog, pg_temp as $$
  select md5(current_user || ' ' || $1)::uuid;
$$;
comment on function fancy_subscriptions.device_process(text) is
  'The process of a device: subscriptions that are made with it are temporary.';

/* Call it every third of lease.ttl.  A device that is new begins with what is written from now on. */
create or replace function fancy_subscriptions.mark_device_active(device_name text)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  process uuid := fancy_subscriptions.device_process($1);
begin
  perform trunkline.lease_renew(process, $1);
  perform trunkline.live_enter(process);
  insert into fancy_subscriptions.active_devices as d (name, latest_cursor, incarnation)
  select $1, e.last_one, e.incarnation from trunkline.broker_ends() e
  on conflict on constraint active_devices_pkey do update set last_activity_at = now()
   where d.last_activity_at < now() - trunkline.lease_ttl() / 3;
end $$;
comment on function fancy_subscriptions.mark_device_active(text) is
  'Renew the lease of a device: trunkline.lease_renew(), live_enter().';

create or replace function fancy_subscriptions.remove_temp_subscriptions(device_name text)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline.live_leave(fancy_subscriptions.device_process($1));
end $$;
comment on function fancy_subscriptions.remove_temp_subscriptions(text) is
  'End the temporary subscriptions of a device: trunkline.live_leave().';

/* Read what was written since the last call, for the subscriptions of a device.  The cursor moves in the
   transaction of the caller: commit it when the clients have got the events.
   Errors: TL404 before mark_device_active(), TL409 a table with row-level security, which clients and the
   gateway apply, TL410 events have left, TL422 a condition that fails. */
create or replace function fancy_subscriptions.get_events_for_subscriptions(
  device_name text, batch_size int default 250)
returns table (id text, topic text, row_data jsonb, row_before jsonb, diff jsonb, subscription_ids text[])
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  process uuid := fancy_subscriptions.device_process($1);
  device fancy_subscriptions.active_devices;
  reached bigint;
  change record;
begin
  perform trunkline.broker_tick();
  select d.* into device from fancy_subscriptions.active_devices d
   where d.role = current_user and d.name = $1 for update;
  if not found then
    perform trunkline._raise('TL404', format('there is no device "%s".', $1),
      'Call mark_device_active() first.');
  end if;
  for change in
    select r.*, c.relrowsecurity as hidden, s.wanting, x.diff,
           format('%s.%s.%s', c.relnamespace::regnamespace, c.relname, upper(r.operation)) as topic
      from trunkline.live_read(
             device.latest_cursor, process, incarnation => device.incarnation, max_events => $2) r
      left join pg_class c on c.oid = r.relation
     cross join lateral (
       select jsonb_object_agg(n.key, n.value)
                filter (where n.value is distinct from r.old_row -> n.key) as diff
         from jsonb_each(r.new_row) n where r.operation = 'update') x
     cross join lateral (
       select array_agg(u.subscription::text order by u.subscription) as wanting
         from unnest(r.subscriptions, r.matched_old, r.matched_new) u (subscription, held, holds)
         join trunkline.live_subscriptions(process) l on l.subscription = u.subscription
        where case r.operation
                when 'insert' then u.holds and 'created' = any (l.changes)
                when 'update' then u.holds and 'updated' = any (l.changes)
                                   and (l.columns is null or x.diff ?| l.columns)
                else 'deleted' = any (l.changes)
              end) s
  loop
    if change.error is not null then
      perform trunkline._raise('TL422', format('subscriptions %s: %s', change.subscriptions, change.error));
    elsif change.hidden then
      perform trunkline._raise('TL409', format('table %s has row-level security.', change.relation::regclass),
        'Follow it with a client, or through the gateway.');
    elsif change.event_id is null then
      reached := change.up_to;
    elsif change.wanting is not null then
      id := trunkline.event_id_text(change.event_id, change.at);
      topic := change.topic;
      row_data := coalesce(change.new_row, change.old_row);
      row_before := case change.operation when 'update' then change.old_row end;
      diff := change.diff;
      subscription_ids := change.wanting;
      return next;
    end if;
  end loop;
  if reached > device.latest_cursor then
    update fancy_subscriptions.active_devices d set latest_cursor = reached
     where d.role = current_user and d.name = $1;
  end if;
end $$;
comment on function fancy_subscriptions.get_events_for_subscriptions(text, int) is
  'What was written for the subscriptions of a device: trunkline.live_read().';

create or replace function fancy_subscriptions.maintain_events_table()
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline.rings_rotate();
end $$;
comment on function fancy_subscriptions.maintain_events_table() is
  'One step of upkeep: trunkline.rings_rotate().';
