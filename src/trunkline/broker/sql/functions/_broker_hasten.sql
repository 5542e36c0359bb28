/* Make everything that waits for another try of a handler due now, for tests; how many. */
create or replace function trunkline._broker_hasten(group_name text, handler text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
  hastened int;
begin
  update trunkline.broker_retry r set due_at = clock_timestamp()
   where r.group_id = reader.group_id and r.handler = reader.handler and r.status = 'waiting' and r.due_at > clock_timestamp();
  get diagnostics hastened = row_count;
  return hastened;
end $$;
comment on function trunkline._broker_hasten(text, text) is 'Make everything that waits for another try of a handler due now.';
select trunkline._access('_broker_hasten(text, text)', 'writer');
