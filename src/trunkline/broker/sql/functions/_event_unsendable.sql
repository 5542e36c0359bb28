/* Is an event larger, as the text in which it is sent, than a message of the server to a client may be?  That is 1 GB. */
create or replace function trunkline._event_unsendable(payload jsonb, metadata jsonb)
returns boolean language sql stable as $$
  select payload is not null and coalesce(trunkline._event_text_bytes(payload, metadata), 1073741824) > 1073000000;
$$;
