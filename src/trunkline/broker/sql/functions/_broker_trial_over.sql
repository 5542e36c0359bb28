/* The process lived: the note of broker_trial() about one event or batch goes.  The lane stays suspect.  Errors: TL404, TL423. */
create or replace function trunkline._broker_trial_over(group_name text, handler text, lane int, epoch bigint, delivery bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
begin
  perform trunkline._owner_check(trunkline._broker_resource(reader.group_id, handler, lane), epoch);
  delete from trunkline.broker_trial t
   where t.group_id = reader.group_id and t.handler = reader.handler and t.lane = _broker_trial_over.lane and t.delivery = _broker_trial_over.delivery and t.delivery <> 0;
end $$;
select trunkline._access('_broker_trial_over(text, text, int, bigint, bigint)', 'reader');
