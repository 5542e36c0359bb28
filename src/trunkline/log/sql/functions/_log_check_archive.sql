/* Refuse what cannot be a row of the manifest, whatever the segment. */
create or replace function trunkline._log_check_archive(
  first_offset bigint, last_offset bigint, messages bigint, bytes bigint, location text, format text, files jsonb, checksum text)
returns void language plpgsql immutable as $$
declare
  counted bigint;
begin
  if first_offset is null or last_offset is null or first_offset < 1 or last_offset < first_offset then
    raise exception using errcode = 'TL422', message = format('an archived range is a first and a last offset from 1 on, got %s to %s.',
      coalesce(first_offset::text, 'NULL'), coalesce(last_offset::text, 'NULL'));
  elsif messages is distinct from last_offset - first_offset + 1 then
    raise exception using errcode = 'TL422', message = format('offsets %s to %s are %s, got %s.', first_offset, last_offset,
      trunkline._counted(last_offset - first_offset + 1, 'message'), coalesce(messages::text, 'NULL')),
      hint = 'The copy is not whole: archive the segment again.';
  elsif bytes is null or bytes < 1 then
    raise exception using errcode = 'TL422', message = format('bytes must be at least 1, got %s.', coalesce(bytes::text, 'NULL'));
  elsif location is null or location !~ '^(/|[A-Za-z][A-Za-z0-9+.-]*://?)[^[:cntrl:]]' or length(location) > 2000 then
    raise exception using errcode = 'TL422', message = format('a location is an absolute path or a URI, got %s.', coalesce(quote_literal(left(location, 80)), 'NULL'));
  elsif location ~ '^[^/]*://[^/]*@' then
    raise exception using errcode = 'TL422', message = 'a location must not contain credentials.',
      hint = 'Every reader of the topic sees it: keep them in the environment of the reader.';
  elsif format is null or format not in ('delta', 'parquet') then
    raise exception using errcode = 'TL422', message = format('format must be "delta" or "parquet", got %s.', coalesce(quote_literal(left(format, 80)), 'NULL'));
  elsif checksum is null or checksum !~ '^[a-z0-9-]+:[0-9a-f]{32,128}$' then
    raise exception using errcode = 'TL422', message = format('a checksum is its kind, a colon and hexadecimal digits, got %s.', coalesce(quote_literal(left(checksum, 80)), 'NULL'));
  elsif jsonb_typeof(files) is distinct from 'array' or jsonb_array_length(files) = 0
     or exists (select from jsonb_array_elements(files) f where jsonb_typeof(f) <> 'object'
                  or jsonb_typeof(f -> 'path') is distinct from 'string' or f ->> 'path' !~ '^[^/[:cntrl:]][^[:cntrl:]]*$' or f ->> 'path' ~ '(^|/)[.][.](/|$)'
                  or coalesce(f ->> 'messages', '') !~ '^[1-9][0-9]{0,17}$') then
    raise exception using errcode = 'TL422', message = 'files is an array of objects with path (relative to the location) and messages, in the order of offsets.',
      detail = jsonb_build_object('files', left(files::text, 200))::text;
  end if;
  select sum((f ->> 'messages')::bigint) into counted from jsonb_array_elements(files) f;
  if counted <> messages then
    raise exception using errcode = 'TL422', message = format('the files hold %s, the range %s.', trunkline._counted(counted, 'message'), messages);
  end if;
end $$;
