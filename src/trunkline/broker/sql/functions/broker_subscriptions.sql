/* Subscriptions of one group or of all: condition and params as they were given, how they are looked up (index or scan),
   whether they are live, late (the history is matched for them first) or in quarantine, with the error and the event that
   caused it, how many living processes hold them, and since when nobody does.  TL404 for a group that is not there. */
create or replace function trunkline.broker_subscriptions(group_name text default null)
returns table (subscription bigint, group_name text, condition text, params jsonb, way text, state text, from_position bigint, matched_up_to bigint, expiry interval,
               holders bigint, idle_since timestamptz, quarantined_at timestamptz, error text, error_position bigint, owner name, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select from trunkline._broker_group_row($1) where $1 is not null;
  select s.subscription, g.group_name, s.given ->> 'condition', s.given -> 'params', case when c.event_key is null then 'scan' else 'index' end,
         case when coalesce(s.quarantined_at, a.at) is not null then 'quarantined' when s.caught_up_to is not null then 'late' else 'live' end,
         s.from_position, coalesce(s.caught_up_to, a.matched), s.expiry,
         (select count(*) from trunkline.broker_holder h join trunkline.lease l using (process) where h.subscription = s.subscription and l.expires > clock_timestamp()),
         case when s.expiry is not null then s.idle_since end, coalesce(s.quarantined_at, a.at), coalesce(s.error, a.error),
         case when s.quarantined_at is not null then s.error_position else a.error_position end, s.owner, s.created_at
    from trunkline.broker_subscription s join trunkline.broker_group g using (group_id) join trunkline.broker_condition c using (condition_id)
    left join trunkline.broker_subscription_aside a on a.subscription = s.subscription  -- it is quarantined, but somebody holds its row
   where $1 is null or g.group_name = $1
   order by s.subscription;
$$;
comment on function trunkline.broker_subscriptions(text) is 'Subscriptions with their conditions, their state, and the error of those in quarantine.';
select trunkline._access('broker_subscriptions(text)', 'reader');
