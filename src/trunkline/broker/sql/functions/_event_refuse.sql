/* Refuse an event that was inserted by hand, in the same words as broker_publish().  Reserved topics are those of the owner of
   this schema: its functions publish there, and check the topics of users before they insert.  TL422. */
create or replace function trunkline._event_refuse(topic text, key text, metadata jsonb)
returns boolean language plpgsql immutable as $$
begin
  if trunkline._reserved_fault('topic', topic) = trunkline._event_fault(topic, key, metadata)
     and pg_has_role((select n.nspowner from pg_namespace n where n.nspname = 'trunkline'), 'usage') then
    return true;
  end if;
  raise exception using errcode = 'TL422', message = trunkline._event_fault(topic, key, metadata);
  return false;
end $$;
select trunkline._access('_event_refuse(text, text, jsonb)', 'writer');
