/* Topics of the log with events that are not forwarded yet, and how many.  Reads the tags of ticks, not the events, so
   that an event for one subscription alone counts too.
   after: look only at positions beyond it; without, at all that lie beyond the cursors.  Writes nothing. */
create or replace function trunkline.broker_forwardable(after bigint default null)
returns table (topic text, events bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  begins bigint := coalesce(after, trunkline._broker_forwarded_to());
begin
  return query
    with waiting as materialized (select w.tag, w.event_position from trunkline._broker_tags(begins) w),
    found as materialized (
      select l.topic, hashtextextended(l.topic, 0) as tag, (trunkline._cursor_latest(k.cursor_id)).up_to
        from trunkline.log_topic l join trunkline.cursor_key k on k.resource = trunkline._broker_forward_resource(l.topic_id)
       where hashtextextended(l.topic, 0) in (select w.tag from waiting w))
    select f.topic, count(*) from found f join waiting w on w.tag = f.tag and w.event_position > f.up_to group by f.topic;
end $$;
comment on function trunkline.broker_forwardable(bigint) is 'Topics of the log with events that are not forwarded yet.';
select trunkline._access('broker_forwardable(bigint)', 'reader');
