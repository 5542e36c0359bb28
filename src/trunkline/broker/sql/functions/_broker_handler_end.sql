/* A handler goes with its positions, retries and dead letters; so does a subscription that only it had.  Whoever works
   for it learns by its epoch. */
create or replace function trunkline._broker_handler_end(group_id int, handler text)
returns void language plpgsql as $$
declare
  present trunkline.broker_handler;
  resources text[];
begin
  select array_agg(trunkline._broker_resource(g.group_id, _broker_handler_end.handler, l.lane)) into resources
    from trunkline.broker_group g cross join lateral generate_series(0, g.lanes - 1) l (lane) where g.group_id = _broker_handler_end.group_id;
  delete from trunkline.party p where p.party = format('broker:%s:%s', _broker_handler_end.group_id, _broker_handler_end.handler);
  -- cursors before owners, as a commit takes them, or the two could wait for each other
  delete from trunkline.cursor_key k where k.resource = any (resources);
  if _broker_handler_end.handler ~ '^webhook:[0-9]+$' then  -- its number is never given again
    delete from trunkline.owner o where o.resource = any (resources);
  else  -- epochs go on, as long as the group is there: whoever worked for it must not commit for one that is made anew
    update trunkline.owner o set epoch = o.epoch + 1, process = null, since = clock_timestamp() where o.resource = any (resources);
  end if;
  delete from trunkline.broker_handler h where h.group_id = _broker_handler_end.group_id and h.handler = _broker_handler_end.handler returning h.* into present;
  delete from trunkline.broker_subscription s
   where s.group_id = present.group_id and s.subscription = any (present.subscriptions)
     and not exists (select from trunkline.broker_handler h where h.group_id = present.group_id and (h.subscriptions is null or s.subscription = any (h.subscriptions)));
end $$;
