/* A duty of maintain(): handlers for which nothing came move up, so that they do not hold back the deliveries of others.
   Only those that lie far behind: an idle installation writes nothing. */
create or replace function trunkline.broker_cursors_advance()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  behind record;
  last_one bigint;
  latest trunkline.cursor;
begin
  for behind in
    select g as present, h as reader, l.lane, k.cursor_id, (trunkline._cursor_latest(k.cursor_id)).up_to
      from trunkline.broker_group g join trunkline.broker_handler h using (group_id) cross join lateral generate_series(0, g.lanes - 1) l (lane)
      join trunkline.cursor_key k on k.resource = trunkline._broker_resource(g.group_id, h.handler, l.lane)
     where h.subscriptions is not null
  loop
    select d.first + d.n - 1 into last_one from trunkline.delivery d
     where d.group_id = (behind.present).group_id and d.lane = behind.lane order by d.first desc limit 1;
    continue when last_one is null or last_one < behind.up_to + 1000
      or exists (select from trunkline.delivery d where d.group_id = (behind.present).group_id and d.lane = behind.lane and d.first + d.n - 1 > behind.up_to
                   and d.first >= coalesce((select b.first from trunkline.delivery b where b.group_id = (behind.present).group_id and b.lane = behind.lane and b.first <= behind.up_to + 1
                                             order by b.first desc limit 1), 0)
                   and d.subscriptions && (select h.subscriptions from trunkline.broker_handler h  -- as they are by now
                                            where h.group_id = (behind.reader).group_id and h.handler = (behind.reader).handler));
    perform 1 from trunkline.cursor_key k where k.cursor_id = behind.cursor_id for no key update skip locked;
    continue when not found;
    latest := trunkline._cursor_latest(behind.cursor_id);
    if latest.up_to = behind.up_to then
      perform trunkline._cursor_move(latest, last_one, latest.state);
    end if;
  end loop;
  return false;
end $$;
comment on function trunkline.broker_cursors_advance() is 'Handlers for which nothing came move up, so that they do not hold back others; a duty of maintain().';
select trunkline._access('broker_cursors_advance()', 'admin');
insert into trunkline.duty (duty, rank) values ('broker_cursors_advance', 61) on conflict do nothing;
