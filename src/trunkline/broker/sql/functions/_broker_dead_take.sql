/* The dead letters that are meant, one or all of a handler, with their lanes held: nobody acknowledges there until commit.
   Errors: TL404, TL422. */
create or replace function trunkline._broker_dead_take(retry bigint, group_name text, handler text)
returns setof trunkline.broker_retry language plpgsql as $$
declare
  reader trunkline.broker_handler;
begin
  perform trunkline._lock_briefly();
  if (retry is null) = (group_name is null) or (group_name is null) <> (handler is null) then
    raise exception using errcode = 'TL422', message = 'expected the number of one dead letter, or a group and a handler.';
  elsif group_name is not null then
    reader := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
  end if;
  perform trunkline._check_may('group:' || g.group_name, 'consume')
     from trunkline.broker_retry r join trunkline.broker_group g using (group_id) where r.retry = _broker_dead_take.retry;
  perform 1 from trunkline.owner o
    where o.resource in (
      select trunkline._broker_resource(r.group_id, r.handler, r.lane) from trunkline.broker_retry r
       where r.retry = _broker_dead_take.retry or (r.group_id = reader.group_id and r.handler = reader.handler and r.status = 'dead'))
    order by o.resource for no key update;
  return query
    select r.* from trunkline.broker_retry r
     where r.status = 'dead' and (r.retry = _broker_dead_take.retry or (r.group_id = reader.group_id and r.handler = reader.handler))
     order by r.delivery for update;
  if not found and retry is not null then
    perform trunkline._broker_dead_row(retry);
  end if;
end $$;
