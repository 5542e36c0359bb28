/* Note, before an event is tried alone, that it is tried: the process before may have died over it.  Returns how often
   that was noted, this time included.  Commit it before the event is handled.  With note false it is only told how often.
   The number of a batch is that of its first delivery, negative.  With delivery NULL the lane is trusted again: all its notes go.  Errors: TL404, TL423. */
create or replace function trunkline.broker_trial(group_name text, handler text, lane int, epoch bigint, delivery bigint, note boolean default true)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
  tried int := 0;
begin
  perform trunkline._owner_check(trunkline._broker_resource(reader.group_id, handler, lane), epoch);
  if delivery is null then
    delete from trunkline.broker_trial t where t.group_id = reader.group_id and t.handler = reader.handler and t.lane = broker_trial.lane;
  elsif not note then
    select coalesce(max(t.attempts), 0) into tried from trunkline.broker_trial t
     where t.group_id = reader.group_id and t.handler = reader.handler and t.lane = broker_trial.lane and t.delivery = broker_trial.delivery;
  else
    insert into trunkline.broker_trial as t (group_id, handler, lane, delivery, attempts)
    values (reader.group_id, reader.handler, broker_trial.lane, broker_trial.delivery, 1)
    on conflict on constraint broker_trial_pkey do update set attempts = t.attempts + 1
    returning t.attempts into tried;
  end if;
  return tried;
end $$;
comment on function trunkline.broker_trial(text, text, int, bigint, bigint, boolean) is 'Note that an event is tried alone after a crash.';
select trunkline._access('broker_trial(text, text, int, bigint, bigint, boolean)', 'reader');
