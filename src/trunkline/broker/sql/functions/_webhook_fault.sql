/* What is wrong with what was said about a webhook, NULL when nothing is.  Values of headers are not repeated. */
create or replace function trunkline._webhook_fault(url text, headers jsonb, retry interval[], timeout interval, batch int, concurrency int, format text)
returns text language plpgsql immutable as $$
begin
  return case
    when coalesce(url, '') !~* E'^https?://([a-z0-9._~-]+|\\[[0-9a-f:.]+\\])(:[0-9]{1,5})?([/?#][!-~]*)?$' or length(url) > 2000
      or (regexp_match(url, '^[^/]*//[^/?#]*:([0-9]+)([/?#]|$)'))[1]::int > 65535 then
      format('a webhook has a URL like https://host/path, in ASCII and without a password in it, got %s.',
        coalesce(quote_literal(left(regexp_replace(url, '//[^/@]*@', '//***@'), 200)), 'NULL'))
    when jsonb_typeof(coalesce(headers, '[]')) <> 'object' then 'headers are a JSON object of texts.'
    when exists (select from jsonb_each(headers) h where h.key !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$') then
      format('"%s" is no name of a header.', (select left(h.key, 80) from jsonb_each(headers) h where h.key !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$' limit 1))
    when exists (select from jsonb_each(headers) h where lower(h.key) in ('content-length', 'transfer-encoding', 'connection', 'host')) then
      'the headers host, connection, content-length and transfer-encoding are the sender''s.'
    when exists (select from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string' or (h.value #>> '{}') !~ '^[ -~]*$') then
      format('the header "%s" is no text of plain ASCII in one line.',
        (select h.key from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string' or (h.value #>> '{}') !~ '^[ -~]*$' limit 1))
    when retry is null or array_position(retry, null) is not null or exists (select from unnest(retry) r where r not between interval '0' and interval '1000 years') then
      format('retry is a list of waits, none of them negative or above 1000 years, got %s.', coalesce(retry::text, 'NULL'))
    when coalesce(timeout, '0') not between interval '1 millisecond' and interval '5 minutes' then
      format('a timeout is at most 5 minutes and longer than nothing, got %s.', coalesce(timeout::text, 'NULL'))
    when coalesce(batch, 0) not between 1 and 10000 then format('a batch has 1 to 10000 events, got %s.', coalesce(batch::text, 'NULL'))
    when coalesce(concurrency, 0) not between 1 and 64 then
      format('an endpoint gets 1 to 64 requests at once, got %s.', coalesce(concurrency::text, 'NULL'))
    when coalesce(format, '') not in ('standard', 'cloudevents') then
      format('the format is "standard" or "cloudevents", got %s.', coalesce(quote_literal(left(format, 80)), 'NULL'))
  end;
end $$;
