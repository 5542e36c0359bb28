/* An offset from words: earliest, latest, a number, or a time. */
create or replace function trunkline._log_start(topic text, part trunkline.log_partition, start text)
returns bigint language plpgsql stable as $$
declare
  chosen bigint;
begin
  if start = 'earliest' then
    return part.first_offset;
  elsif start = 'latest' then
    return trunkline._log_tail(part) + 1;
  elsif start ~ '^-?[0-9]+$' then
    chosen := start::bigint;
    perform trunkline._log_check_position(topic, part, chosen, null);
    return chosen;
  end if;
  begin
    return trunkline.log_offset_at(topic, part.partition, start::timestamptz);
  exception when data_exception then
    perform trunkline._raise('TL422', format('a start is earliest, latest, an offset or a time, got "%s".', start));
  end;
end $$;
