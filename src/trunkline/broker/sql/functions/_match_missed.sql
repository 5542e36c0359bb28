/* Publish an event about positions that left before they were matched for a subscription, which stood still for longer than broker.hold or
   was to begin at a time before them. */
create or replace function trunkline._match_missed(late trunkline.broker_subscription, first bigint, last bigint)
returns void language sql as $$
  -- a plain INSERT waits for nobody, whatever the topic's key_order
  insert into trunkline.event (topic, key, payload)
  select 'trunkline.subscription.trimmed', g.group_name,
         jsonb_build_object('group', g.group_name, 'subscription', late.subscription::text, 'first', first::text, 'last', last::text)
    from trunkline.broker_group g where g.group_id = late.group_id;
$$;
