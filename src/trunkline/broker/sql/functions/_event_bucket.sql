/* The bucket of an event, 0 to 63, which decides its lane in every group: by its key, else by its topic. */
create or replace function trunkline._event_bucket(key text, topic text)
returns int language sql immutable parallel safe as $$
  select (hashtextextended(coalesce(key, topic), 0) & 63)::int;
$$;
