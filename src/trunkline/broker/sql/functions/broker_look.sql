/* What a handler may expect in its lanes: the last delivery there is, for whomever, and how long until something that
   failed is due for another try; NULL where there is none.  Reads only.  Errors: TL404. */
create or replace function trunkline.broker_look(group_name text, handler text, lanes int[])
returns table (lane int, head bigint, due_in interval)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
begin
  return query
    select l.lane,
           (select d.first + d.n - 1 from trunkline.delivery d where d.group_id = reader.group_id and d.lane = l.lane order by d.first desc limit 1),
           (select min(r.due_at) from trunkline.broker_retry r
             where r.group_id = reader.group_id and r.handler = reader.handler and r.lane = l.lane and r.status = 'waiting') - clock_timestamp()
      from unnest(lanes) l (lane);
end $$;
comment on function trunkline.broker_look(text, text, int[]) is 'What a handler may expect in its lanes.';
select trunkline._access('broker_look(text, text, int[])', 'reader');
