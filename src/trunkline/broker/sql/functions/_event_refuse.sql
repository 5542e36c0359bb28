/* Refuse an event that was inserted by hand, in the same words as broker_publish().  Returns never.  TL422. */
create or replace function trunkline._event_refuse(topic text, key text, metadata jsonb)
returns boolean language plpgsql immutable as $$
begin
  perform trunkline._raise('TL422', trunkline._event_fault(topic, key, metadata));
  return false;
end $$;
select trunkline._access('_event_refuse(text, text, jsonb)', 'writer');
