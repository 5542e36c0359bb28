/* An offset from words: earliest (archived or not), hot (the first in the database), latest, a number, or a time. */
create or replace function trunkline._log_start(topic text, part trunkline.log_partition, start text)
returns bigint language plpgsql as $$
declare
  chosen bigint;
  moment timestamptz;
begin
  if start = 'earliest' then
    return trunkline._log_first(part);
  elsif start = 'hot' then
    return part.first_offset;
  elsif start = 'latest' then
    return coalesce(trunkline._log_tail(part), part.first_offset - 1) + 1;
  end if;
  begin
    if start ~ '^-?[0-9]+$' then
      chosen := start::bigint;
    else
      moment := start::timestamptz;
    end if;
  exception when data_exception then
    null;
  end;
  if chosen is not null then
    if (trunkline._log_archived(part, chosen)).topic_id is null then
      perform trunkline._log_check_position(topic, part, chosen, null);
    end if;
    return chosen;
  elsif moment is not null then
    return trunkline.log_offset_at(topic, part.partition, moment);
  end if;
  raise exception using errcode = 'TL422', message = format('a start is earliest, hot, latest, an offset or a time, got %s.', coalesce(quote_literal(left(start, 80)), 'NULL'));
end $$;
