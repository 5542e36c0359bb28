/* What is wrong with an event, in words; NULL when nothing is.  An expression: part of whoever asks. */
create or replace function trunkline._event_fault(topic text, key text, metadata jsonb)
returns text language sql stable as $$
  select case
    when topic is null then 'an event has a topic, got NULL.'
    when topic = '' or length(topic) > 255 or topic ~ '[[:cntrl:]]'
      then format('a topic has 1 to 255 characters, none of them a control character, got %s.', to_json(left(topic, 80)))
    when starts_with(topic, 'trunkline.') then trunkline._reserved_fault('topic', topic)
    when octet_length(key) > 1000 then format('a key has up to 1000 bytes, got %s.', octet_length(key))
    when jsonb_typeof(metadata) <> 'object' then format('metadata is a JSON object, got %s.', left(metadata::text, 80))
  end;
$$;
select trunkline._access('_event_fault(text, text, jsonb)', 'writer');
