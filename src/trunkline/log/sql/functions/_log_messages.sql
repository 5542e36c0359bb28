/* The messages of one record batch of codec none, by index from 0.  TL422 when it is damaged. */
create or replace function trunkline._log_messages(
  base_offset bigint, n int, value_ends bytea, payload bytea, value_valid bytea, key_ends bytea, keys bytea, key_valid bytea, deltas bytea, headers bytea)
returns table (i int, log_offset bigint, key bytea, value bytea, header jsonb) language plpgsql immutable as $$
declare
  -- copies in memory: a slice of a stored value would be fetched anew for each message
  ends bytea := value_ends || ''::bytea;
  data bytea := payload || ''::bytea;
  key_data bytea := keys || ''::bytea;
  key_stops bytea := key_ends || ''::bytea;
  header_list jsonb;
begin
  header_list := convert_from(headers, 'UTF8');
  return query
    select g, base_offset + coalesce(trunkline._log_int(deltas, g), g),
           case when key_stops is not null and coalesce(get_bit(key_valid, g) = 1, true)
                then substr(key_data, trunkline._log_int(key_stops, g) + 1, trunkline._log_int(key_stops, g + 1) - trunkline._log_int(key_stops, g)) end,
           case when coalesce(get_bit(value_valid, g) = 1, true)
                then substr(data, trunkline._log_int(ends, g) + 1, trunkline._log_int(ends, g + 1) - trunkline._log_int(ends, g)) end,
           nullif(header_list -> g, 'null')
      from generate_series(0, n - 1) g;
exception when data_exception then
  raise exception using errcode = 'TL422', message = format('the record batch at offset %s is damaged: %s.', base_offset, sqlerrm),
    detail = jsonb_build_object('from', base_offset)::text;
end $$;
