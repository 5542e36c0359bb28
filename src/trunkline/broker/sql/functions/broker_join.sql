/* Take part in the work of a handler, and learn which lanes are yours: epoch, the last delivery that is done, whether the
   lane is more than a fair share and should be given back, and whether the process before died on it (suspect: try
   its next events one by one).  Call it again every few seconds; it writes nothing when nothing changed.
   Errors: TL404, TL422, TL423 without a living lease. */
create or replace function trunkline.broker_join(group_name text, handler text, process uuid, member text default '')
returns table (lane int, lanes int, epoch bigint, up_to bigint, surplus boolean, suspect boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'consume');
  resources text[];
  died text[];
  shares jsonb;
begin
  if handler is null or member is null then
    raise exception using errcode = 'TL422', message = 'handler and member are names, which may be empty; got NULL.';
  end if;
  if not exists (select from trunkline.broker_handler h where h.group_id = present.group_id and h.handler = broker_join.handler) then
    if handler ~ '^webhook:[0-9]+$' then  -- it was removed: a sender that has not heard of it must not bring it back
      perform trunkline._broker_handler_row(present, handler);
    end if;
    perform trunkline._broker_handler_ensure(present.group_id, handler, null, null);
  end if;
  resources := array(select trunkline._broker_resource(present.group_id, handler, g) from generate_series(0, present.lanes - 1) g);
  died := array(select o.resource from trunkline.owner o where o.resource = any (resources) and o.process is not null and not trunkline._lease_living(o.process));
  select jsonb_agg(s) into shares from trunkline._party_share(format('broker:%s:%s', present.group_id, handler), resources, process, member) s;
  insert into trunkline.broker_trial (group_id, handler, lane, delivery, attempts)
  select present.group_id, broker_join.handler, s.place - 1, 0, 0 from jsonb_to_recordset(shares) s (place int) where resources[s.place] = any (died)
  on conflict on constraint broker_trial_pkey do nothing;
  -- a statement of its own: it sees the last acknowledgement before the hand-over
  return query
    select s.place - 1, present.lanes, s.epoch, trunkline._broker_position(present.group_id, handler, s.place - 1), s.surplus,
           exists (select from trunkline.broker_trial t where t.group_id = present.group_id and t.handler = broker_join.handler and t.lane = s.place - 1)
      from jsonb_to_recordset(shares) s (place int, epoch bigint, surplus boolean)
     order by s.place;
end $$;
comment on function trunkline.broker_join(text, text, uuid, text) is 'Take part in the work of a handler: the lanes that are yours, with epoch and position.';
select trunkline._access('broker_join(text, text, uuid, text)', 'reader');
