/* Publish events whose time has come, in the order of their times, and keep their ids.  Any number may call it: each
   event is taken by one.  Returns how many; writes nothing when none is due.  Writes: event, event_due.
   Locks: in topics whose key_order is locked the keys, up to 1000 at once.  Waits for nobody: while somebody else holds a key, its
   events wait, and no others. */
create or replace function trunkline.broker_release(max_events int default 10000)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  now_ timestamptz := clock_timestamp();
  locked text[] := array(select t.topic from trunkline.broker_topic t where t.key_order = 'locked');
  ours record;
  released int;
begin
  perform trunkline._lock_briefly();
  if max_events is null or max_events < 1 then
    raise exception using errcode = 'TL422', message = format('max_events is at least 1, got %s.', coalesce(max_events::text, 'NULL'));
  end if;
  -- the keys as _event_lock() locks them, before any of their events: whoever has a key has all of its events, in order
  select array_agg(k.topic) as topics, array_agg(k.key) as keys into ours
    from (select w.topic, w.key
            from (select d.topic, d.key from trunkline.event_due d
                   where locked <> '{}' and d.deliver_at <= now_ and d.topic = any (locked) and d.key is not null
                   group by 1, 2 order by min(d.deliver_at), min(d.event_id) offset 0) w
           where case when pg_try_advisory_xact_lock_shared(hashtext('trunkline.event bucket ' || w.topic), hashtext(w.key) & 63)
                      then pg_try_advisory_xact_lock(hashtext('trunkline.event ' || w.topic), hashtext(w.key)) end
           limit 1000) k;
  with due as materialized (
    select d.event_id from trunkline.event_due d
     where d.deliver_at <= now_
       and (d.key is null or d.topic <> all (locked) or (d.topic, d.key) in (select * from unnest(ours.topics, ours.keys)))
     order by d.deliver_at, d.event_id limit max_events for update skip locked),
  gone as (delete from trunkline.event_due d where d.event_id in (select t.event_id from due t) returning d.*),
  here as materialized (select r.current, trunkline._xid_space() as space from trunkline.ring r where r.ring = 'event')
  insert into trunkline.event (slot, xid_space, xid, seq, topic, key, payload, metadata, subscription, at, event_id)
  select h.current, h.space, pg_current_xact_id(), nextval('trunkline.event_seq'), g.topic, g.key, g.payload, g.metadata, g.subscription, g.at, g.event_id
    from (select * from gone g order by g.deliver_at, g.event_id) g, here h;
  get diagnostics released = row_count;
  return released;
end $$;
comment on function trunkline.broker_release(int) is 'Publish events whose time has come.';
select trunkline._access('broker_release(int)', 'reader');
