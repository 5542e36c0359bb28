/* Trigger: a topic of the log was made. */
create or replace function trunkline._broker_forward_begin()
returns trigger language plpgsql as $$
begin
  perform trunkline._broker_forward_start(new.topic_id);
  return null;
end $$;
