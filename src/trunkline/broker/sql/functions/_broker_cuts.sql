/* Where batches end that were under way in lanes of a handler: see _broker_cut().  NULL where none was. */
create or replace function trunkline._broker_cuts(group_name text, handler text, lanes int[])
returns table (lane int, cuts jsonb) language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  reader trunkline.broker_handler := trunkline._broker_handler_row(trunkline._broker_group_for(group_name, 'consume'), handler);
begin
  return query
    select l.lane, (trunkline._cursor_latest(k.cursor_id)).state -> 'cuts'
      from unnest(lanes) l (lane) join trunkline.cursor_key k on k.resource = trunkline._broker_resource(reader.group_id, reader.handler, l.lane);
end $$;
select trunkline._access('_broker_cuts(text, text, int[])', 'reader');
