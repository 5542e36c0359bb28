/* Refuse a batch of events that cannot be published, naming the first that is wrong.
   Errors: TL404 no such subscription, TL413, TL422. */
create or replace function trunkline._event_check(
  topics text[], payloads jsonb[], keys text[], metadatas jsonb[], deliver_ats timestamptz[], subscriptions bigint[])
returns void language plpgsql as $$
declare
  n int := cardinality(topics);
  largest int := trunkline._setting('broker.payload_bytes');
  wrong record;
begin
  if n is null or cardinality(payloads) <> n or payloads is null
     or n <> any (array[coalesce(cardinality(keys), n), coalesce(cardinality(metadatas), n), coalesce(cardinality(deliver_ats), n), coalesce(cardinality(subscriptions), n)]) then
    raise exception using errcode = 'TL422', message = format('a batch has as many of each as it has topics, got %s topics, %s payloads, %s keys, %s metadatas, %s times, %s subscriptions.',
      coalesce(n, 0), coalesce(cardinality(payloads), 0), coalesce(cardinality(keys)::text, 'no'), coalesce(cardinality(metadatas)::text, 'no'),
      coalesce(cardinality(deliver_ats)::text, 'no'), coalesce(cardinality(subscriptions)::text, 'no'));
  end if;
  select f.* into wrong
    from (select u.place, coalesce(trunkline._event_fault(u.topic, u.key, u.metadata),
                   case when u.payload is null then 'a payload is JSON, got SQL NULL; JSON has a null of its own: ''null''.'
                        when pg_column_size(u.payload) > largest then format('a payload has up to %s bytes, got %s.', largest, pg_column_size(u.payload))
                        when u.deliver_at = 'infinity' then 'deliver_at is a time, got infinity.' end) as fault,
                 pg_column_size(u.payload) > largest as too_large
            from unnest(topics, payloads, keys, metadatas, deliver_ats) with ordinality u (topic, payload, key, metadata, deliver_at, place)) f
   where f.fault is not null order by f.place limit 1;
  if wrong.fault is not null then
    perform trunkline._raise(case when wrong.too_large and wrong.fault like 'a payload%' then 'TL413' else 'TL422' end,
      case when n > 1 then format('event %s of %s: ', wrong.place, n) else '' end || wrong.fault,
      case when wrong.too_large then 'Publish where it is kept instead of what it is.' else '' end,
      jsonb_build_object('place', wrong.place));
  end if;
  select u.place, u.subscription into wrong from unnest(subscriptions) with ordinality u (subscription, place)
   where u.subscription is not null and not exists (select from trunkline.broker_subscription s where s.subscription = u.subscription)
   order by u.place limit 1;
  if found then
    raise exception using errcode = 'TL404', message = format('there is no subscription %s.', wrong.subscription),
      hint = 'broker_subscriptions() lists them.', detail = jsonb_build_object('place', wrong.place)::text;
  end if;
end $$;
