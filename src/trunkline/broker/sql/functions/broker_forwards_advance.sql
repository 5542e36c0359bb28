/* A duty of maintain(): cursors of topics for which no event came move up, so that they do not hold back the ring.
   Only those that lie far behind, or before what broker.retention keeps: an idle installation writes nothing. */
create or replace function trunkline.broker_forwards_advance()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  far constant int := 10000;
  head bigint := trunkline.broker_head();
  -- before this one nothing stays but for them
  kept bigint := coalesce(trunkline._tick_first_since('event', clock_timestamp() - trunkline._setting('broker.retention')::interval), head + 1);
  behind record;
begin
  perform trunkline._isolation_check('Moving cursors');
  for behind in
    with cursors as materialized (
      select c.* from (select k.cursor_id, hashtextextended(l.topic, 0) as tag, (trunkline._cursor_latest(k.cursor_id)).up_to
                         from trunkline.log_topic l join trunkline.cursor_key k on k.resource = trunkline._broker_forward_resource(l.topic_id)) c
       where c.up_to < head - far or c.up_to < kept - 1)
    select c.cursor_id, c.up_to, min(w.event_position) as first_one
      from cursors c left join trunkline._broker_tags((select min(m.up_to) from cursors m)) w on w.tag = c.tag and w.event_position > c.up_to
     group by c.cursor_id, c.up_to
    having min(w.event_position) is null or min(w.event_position) > c.up_to + far
  loop
    perform 1 from trunkline.cursor_key k where k.cursor_id = behind.cursor_id for no key update skip locked;
    if found and (trunkline._cursor_latest(behind.cursor_id)).up_to = behind.up_to then
      perform trunkline._cursor_write(behind.cursor_id, coalesce(behind.first_one - 1, head));
    end if;
  end loop;
  return false;
end $$;
comment on function trunkline.broker_forwards_advance() is 'Cursors of topics for which no event came move up, so that they do not hold back the ring; a duty of maintain().';
select trunkline._access('broker_forwards_advance()', 'admin');
insert into trunkline.duty (duty, rank) values ('broker_forwards_advance', 60) on conflict do nothing;
