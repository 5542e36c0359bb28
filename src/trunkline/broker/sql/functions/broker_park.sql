/* Set events aside that must not be handled before an older event of their key is settled.  One whose key is free
   by now becomes due at once.  Commit the position in the same transaction.  Returns how many were set aside.
   The epoch must be that of the lane and stays so until commit.  Errors: TL404, TL410, TL423. */
create or replace function trunkline.broker_park(group_name text, handler text, lane int, epoch bigint, deliveries bigint[])
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
  aside int;
begin
  -- first: whoever discards what they wait for holds the row of the lane meanwhile
  perform trunkline._owner_check(trunkline._broker_resource(reader.group_id, handler, lane), epoch);
  aside := trunkline._broker_set_aside(reader, lane, deliveries, 'parked', null, null, null);
  perform trunkline._broker_keys_free(reader.group_id, handler,
    array(select distinct r.key from trunkline.broker_retry r
           where r.group_id = reader.group_id and r.handler = reader.handler and r.lane = broker_park.lane and r.delivery = any (deliveries)));
  return aside;
end $$;
comment on function trunkline.broker_park(text, text, int, bigint, bigint[]) is
  'Set events aside that must wait for an older event of their key.';
select trunkline._access('broker_park(text, text, int, bigint, bigint[])', 'reader');
