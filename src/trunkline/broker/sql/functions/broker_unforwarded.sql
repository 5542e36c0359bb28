/* Events that were set aside because they are too large for the topic of the log they belong to, oldest first, without their payloads,
   which are in the table broker_forward_aside: broker_publish() them in parts, or again after broker.forward_bytes is raised.
   TL404 for a topic that the log does not have. */
create or replace function trunkline.broker_unforwarded(topic text default null)
returns table (topic text, event_id bigint, event_position bigint, key text, at timestamptz, error text, aside_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select from trunkline._log_topic_row($1) where $1 is not null;
  select t.topic, a.event_id, a.event_position, a.key, a.at, a.error, a.aside_at
    from trunkline.broker_forward_aside a join trunkline.log_topic t using (topic_id)
   where $1 is null or t.topic = $1 order by a.event_position;
$$;
comment on function trunkline.broker_unforwarded(text) is 'Events that are too large for the topic of the log they belong to.';
select trunkline._access('broker_unforwarded(text)', 'reader');
